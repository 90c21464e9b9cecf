-- KEYS: leases. ARGV: prefix. Ends every lease that has run out; returns the number of live ones.
return live_leases(now())
