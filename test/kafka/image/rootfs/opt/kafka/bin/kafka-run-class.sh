#!/bin/bash
# Runs one class of Kafka with the image's jars: kafka-run-class.sh CLASS ARG…
# It honours the variables of Kafka's own script of this name.
exec java \
  ${KAFKA_HEAP_OPTS:--Xmx256M} \
  ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:+UseSerialGC -XX:TieredStopAtLevel=1} \
  ${KAFKA_LOG4J_OPTS:--Dlog4j2.configurationFile=/etc/kafka/docker/tools-log4j2.yaml} \
  ${KAFKA_OPTS:-} \
  -cp '/opt/kafka/libs/*' "$@"
