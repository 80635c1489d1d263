# docker build --build-arg VERSION=$(python -m setuptools_scm) -t jigsawmil .
# docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD":/work jigsawmil demo --out demo
FROM python:3.11-slim

# The version comes from git tags, and .git is not copied.
ARG VERSION=0.0.0
ENV SETUPTOOLS_SCM_PRETEND_VERSION_FOR_JIGSAWMIL=$VERSION PIP_NO_CACHE_DIR=1 \
    MPLBACKEND=Agg MPLCONFIGDIR=/tmp/matplotlib NUMBA_CACHE_DIR=/tmp/numba

RUN useradd --create-home user
WORKDIR /opt/jigsawmil
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --constraint constraints.txt '.[slides,zarr,anndata]' && rm -rf /opt/jigsawmil

USER user
WORKDIR /work
ENTRYPOINT ["jigsawmil"]
CMD ["--help"]
