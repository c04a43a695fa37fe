package kafka

import (
	"context"
	"maps"
	"net"
	"strconv"
	"strings"
)

// logDir is where the broker keeps its data, in the container.
const logDir = "/tmp/kraft-combined-logs"

// environment is the container's environment: a single node that is its own
// controller, cut to a small machine, under the names the image expects. config
// wins over everything else.
func environment(listeners, config map[string]string) map[string]string {
	properties := map[string]string{
		"node.id":                    "1",
		"process.roles":              "broker,controller",
		"inter.broker.listener.name": "PLAINTEXT",
		"controller.listener.names":  "CONTROLLER",
		"controller.quorum.voters":   "1@localhost:9093",
		"log.dirs":                   logDir,

		"offsets.topic.num.partitions":                     "4",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             "4",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",

		// A test never waits for members that will not come, and a topic
		// nobody created is a mistake in the test.
		"group.initial.rebalance.delay.ms": "0",
		"auto.create.topics.enable":        "false",
	}
	maps.Copy(properties, listeners)
	maps.Copy(properties, config)
	environment := map[string]string{
		"KAFKA_HEAP_OPTS":            "-Xmx512M",
		"KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
	}
	for name, value := range properties {
		environment[variable(name)] = value
	}
	return environment
}

// variable turns a broker property's name into the environment variable the
// image reads it from.
func variable(property string) string {
	return "KAFKA_" + strings.ToUpper(strings.NewReplacer(".", "_", "_", "__", "-", "___").Replace(property))
}

// plain are fronts whose connections nobody secures.
func plain(fronts []string) (all []Secured) {
	for i, front := range fronts {
		all = append(all, Secured{Name: "FRONT" + strconv.Itoa(i+1), Protocol: "PLAINTEXT", Front: front})
	}
	return all
}

// listeners are the properties that open a port for clients and one for each
// front, and say under which address each is to be dialed.
//
// The first of ports is the clients', the others are the fronts', in their order.
func listeners(ports []string, fronts []Secured) map[string]string {
	properties := map[string]string{}
	own := []string{"PLAINTEXT://:" + ports[0], "CONTROLLER://localhost:9093"}
	advertised := []string{"PLAINTEXT://" + loopback(ports[0])}
	protocols := []string{"PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	for i, front := range fronts {
		own = append(own, front.Name+"://:"+ports[1+i])
		advertised = append(advertised, front.Name+"://"+front.Front)
		protocols = append(protocols, front.Name+":"+front.Protocol)
		for property, value := range front.Config {
			properties["listener.name."+strings.ToLower(front.Name)+"."+property] = value
		}
	}
	properties["listeners"] = strings.Join(own, ",")
	properties["advertised.listeners"] = strings.Join(advertised, ",")
	properties["listener.security.protocol.map"] = strings.Join(protocols, ",")
	return properties
}

func exposed(ports []string) (tcp []string) {
	for _, port := range ports {
		tcp = append(tcp, port+"/tcp")
	}
	return tcp
}

func loopback(port string) string { return net.JoinHostPort("127.0.0.1", port) }

// freePorts returns n ports that nobody listens on at this moment.
func freePorts(ctx context.Context, n int) (ports []string, err error) {
	var config net.ListenConfig
	for range n {
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // not before all are found: they are to differ
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
