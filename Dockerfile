# The kernels are compiled here, where there is a C compiler.
FROM python:3.12 AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY dedup_middleware ./dedup_middleware
RUN DEDUP_SHIP_KERNELS=1 pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim

RUN useradd --create-home --uid 10001 crawler
WORKDIR /home/crawler/app

COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[crawler]"
COPY scrapy.cfg ./
COPY settings ./settings
COPY crawler ./crawler

# The dictionary, and kernels for a processor that the wheel's do not fit, are kept where the
# unprivileged user may write, and made once here, so that a new container is ready in a second.
ENV DEDUP_CACHE_DIR=/home/crawler/.cache/dedup \
    NEWS_DIR=/home/crawler/out \
    PYTHONUNBUFFERED=1
RUN mkdir -p /home/crawler/out && chown -R crawler:crawler /home/crawler
USER crawler
# For an index in Redis, which needs a kernel more than others.
RUN SCRAPY_PROJECT=shared scrapy dedup warmup

CMD ["scrapy", "crawl", "news"]
