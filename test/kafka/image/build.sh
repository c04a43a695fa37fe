#!/bin/bash
# Builds a Kafka broker image where no image registry can be reached, and
# prints its name (all else goes to stderr):
#
#   export FEEDSINK_KAFKA_IMAGE=$(test/kafka/image/build.sh)
#
# It has the variables, paths and scripts of the public apache/kafka image, as
# far as the tests use them. The root file system is Debian's, by debootstrap
# from the mirror this machine uses itself; Kafka comes from Maven.
# Needs: root, a Docker daemon, Debian with debootstrap, Java and Maven. About
# two minutes, and none when the image of this recipe exists already.
set -euo pipefail
cd "$(dirname "$0")"

die() { echo "build.sh: $*" >&2; exit 1; }

version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' pom.xml)
image="feedsink-kafka:$version"
recipe=$(find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16)

if [[ "$(docker image inspect --format '{{index .Config.Labels "feedsink.recipe"}}' "$image" 2>/dev/null)" == "$recipe" ]]; then
  echo "$image is up to date" >&2
  echo "$image"
  exit 0
fi

[[ $EUID -eq 0 ]] || die "must run as root: debootstrap makes device nodes and mounts /proc"
for tool in docker debootstrap mvn java; do
  command -v "$tool" >/dev/null || die "$tool is missing; install it"
done

work=$(mktemp -d)
# --one-file-system: should debootstrap die with /proc mounted, /proc stays whole.
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root

base_system() {
  local suite mirror
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(CODENAME) $(SITE)' 'Identifier: Packages' |
    awk -v suite="$suite" '$1 == suite {print $2; exit}')
  [[ -n $mirror ]] || die "no Debian mirror for $suite in this machine's apt sources"
  if ! debootstrap --variant=minbase --include=openjdk-17-jre-headless \
    "$suite" "$root" "$mirror" >"$work/debootstrap.log" 2>&1; then
    tail -20 "$work/debootstrap.log" >&2
    die "debootstrap of $suite ended with an error"
  fi
  rm -rf "$root"/var/cache/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
    "$root"/usr/share/{doc,man,locale,info} "$root"/dev/*
  chroot "$root" useradd --create-home --uid 1000 --shell /bin/bash appuser
}

kafka() {
  mvn -B -q -f pom.xml dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$work/libs" >&2
  mkdir -p "$root/opt/kafka/config" "$root/var/lib/kafka/data" "$root/mnt/shared/config"
  cp -r rootfs/. "$root/"
  mv "$work/libs" "$root/opt/kafka/libs"
  local script class
  while read -r script class; do
    printf '#!/bin/bash\nexec /opt/kafka/bin/kafka-run-class.sh %s "$@"\n' "$class" >"$root/opt/kafka/bin/$script.sh"
  done <<'END'
kafka-acls                 org.apache.kafka.tools.AclCommand
kafka-broker-api-versions  org.apache.kafka.tools.BrokerApiVersionsCommand
kafka-configs              kafka.admin.ConfigCommand
kafka-console-consumer     org.apache.kafka.tools.consumer.ConsoleConsumer
kafka-console-producer     org.apache.kafka.tools.ConsoleProducer
kafka-consumer-groups      org.apache.kafka.tools.consumer.group.ConsumerGroupCommand
kafka-get-offsets          org.apache.kafka.tools.GetOffsetShell
kafka-storage              kafka.tools.StorageTool
kafka-topics               org.apache.kafka.tools.TopicCommand
END
  chmod 755 "$root"/opt/kafka/bin/*.sh "$root/etc/kafka/docker/run"
  chown -R 1000:1000 "$root"/{opt/kafka,var/lib/kafka,mnt/shared,etc/kafka}
}

echo "building $image: Debian and Java" >&2
base_system
echo "building $image: Kafka's jars" >&2
kafka
echo "building $image: import" >&2
tar -C "$root" -c . | docker import \
  --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8' \
  --change 'USER appuser' \
  --change 'EXPOSE 9092' \
  --change 'CMD ["/etc/kafka/docker/run"]' \
  --change "LABEL feedsink.recipe=$recipe" \
  - "$image" >&2
echo "$image"
