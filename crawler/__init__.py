"""The news crawler that comes with the plugin."""
