FROM python:3.12-slim

RUN useradd --create-home --uid 10001 crawler
WORKDIR /home/crawler/app

# Dependencies first: they change less often than the code.
COPY pyproject.toml README.md LICENSE ./
COPY dedup_middleware ./dedup_middleware
RUN pip install --no-cache-dir '.[crawler]'
COPY scrapy.cfg ./
COPY settings ./settings
COPY crawler ./crawler

# The compiled kernels and the dictionary are kept where the unprivileged user may write, and
# made once here, so that a new container is ready in a second.
ENV DEDUP_CACHE_DIR=/home/crawler/.cache/dedup \
    NEWS_DIR=/home/crawler/out \
    PYTHONUNBUFFERED=1
RUN mkdir -p /home/crawler/out && chown -R crawler:crawler /home/crawler
USER crawler
# For an index in Redis, which needs a kernel more than others.
RUN SCRAPY_PROJECT=shared scrapy dedup warmup

CMD ["scrapy", "crawl", "news"]
