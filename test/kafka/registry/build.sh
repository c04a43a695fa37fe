#!/bin/bash
# Builds an image of a schema registry with Confluent's interface where no image
# registry can be reached, and prints its name (all else goes to stderr):
#
#   export FEEDSINK_REGISTRY_IMAGE=$(test/kafka/registry/build.sh)
#
# It is Apicurio Registry, which keeps everything in memory, as the public image
# apicurio/apicurio-registry-mem has it. Debian and Java come with the image that
# ../image/build.sh builds, the registry itself from Maven.
# Needs: what ../image/build.sh needs. Half a minute, and none when the image of
# this recipe exists already.
set -euo pipefail
cd "$(dirname "$0")"

version=2.6.13.Final # also the tag in kafka.DefaultRegistryImage; a test compares the two
image="feedsink-registry:$version"
base=$(../image/build.sh)
recipe=$({ cat Dockerfile build.sh; docker image inspect --format '{{.Id}}' "$base"; } | sha256sum | cut -c1-16)

if [[ "$(docker image inspect --format '{{index .Config.Labels "feedsink.recipe"}}' "$image" 2>/dev/null)" == "$recipe" ]]; then
  echo "$image is up to date" >&2
  echo "$image"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "building $image: the registry's jars" >&2
mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
  -Dartifact="io.apicurio:apicurio-registry-app:$version:tar.gz:all" -DoutputDirectory="$work" >&2
mkdir "$work/registry"
tar -C "$work/registry" -xzf "$work"/*.tar.gz
rm "$work"/*.tar.gz
mv "$work"/registry/*-runner.jar "$work/registry/registry.jar"
echo "building $image" >&2
DOCKER_BUILDKIT=0 docker build -q --build-arg BASE="$base" --label "feedsink.recipe=$recipe" -f Dockerfile -t "$image" "$work" >&2
echo "$image"
