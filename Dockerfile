# kb for a team: servers, workers and commands in one image. See docs/how-to/team.md.
#
#     docker build -t kb .
#     docker run --rm kb --version
#
# The root file system can be read-only: everything that kb writes is below /data and /tmp.

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY src ./src
RUN python -m venv /opt/kb \
    && /opt/kb/bin/pip install --no-cache-dir --constraint constraints.txt \
        '.[serve,mcp,postgres,watch,formats,lang]'

FROM python:3.12-slim
COPY --from=build /opt/kb /opt/kb
RUN groupadd --gid 10001 kb \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data kb \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data /data/tokens
ENV PATH=/opt/kb/bin:$PATH \
    HOME=/data \
    XDG_CONFIG_HOME=/data/config \
    XDG_DATA_HOME=/data/data \
    XDG_CACHE_HOME=/data/cache \
    XDG_STATE_HOME=/data/state \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/healthz', timeout=2)"]
ENTRYPOINT ["kb"]
CMD ["serve", "--host", "0.0.0.0"]
