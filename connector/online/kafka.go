package online

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/schemas"
)

// needed are the rights that a sink needs on a topic that it reads, on the group of a
// lane, on that of a lane that no mapping uses, and on the dead-letter and the receipts topic. For Kafka
// READ and WRITE imply DESCRIBE.
var needed = struct{ Topic, Group, OtherGroup, DeadLetters, Receipts []string }{
	Topic:       []string{cluster.Read, cluster.Describe},
	Group:       []string{cluster.Read, cluster.Describe},
	OtherGroup:  []string{cluster.Describe},
	DeadLetters: []string{cluster.Write, cluster.Describe},
	Receipts:    []string{cluster.Write, cluster.Describe},
}

// kafka checks brokers, topics, groups and the last records.
func (c checker) kafka() []Check {
	connection := build.KafkaConnection(c.cfg.Kafka, nil)
	var checks []Check
	var answering []string
	asking, cancel := context.WithTimeout(c.ctx, limit/2) // what answers is to be asked more
	defer cancel()
	for _, seed := range connection.Seeds(asking) {
		checks = append(checks, brokerCheck("broker "+seed.Address, seed.Err))
		if seed.Err == nil {
			answering = append(answering, seed.Address)
		}
	}
	if len(answering) == 0 {
		return append(checks, Check{"topics, groups and records", NotChecked, "no broker answers"})
	}
	for i := range checks {
		if checks[i].Result == Fail {
			checks[i].Result = Warn
			checks[i].Detail += "; a sink runs all the same, as others of kafka.brokers answer"
		}
	}
	connection.Brokers = answering
	c.cfg = new(*c.cfg) // the others would take the time of what follows
	c.cfg.Kafka.Brokers = answering
	topics, groups := c.router.Topics(schemas.Lanes...), c.groups()
	asked := topics
	if dead := c.cfg.DLQ.Topic; dead != "" && !slices.Contains(topics, dead) {
		asked = append(slices.Clone(topics), dead)
	}
	if receipts := c.cfg.Receipts.Topic; receipts != "" {
		asked = append(slices.Clone(asked), receipts)
	}
	found, err := connection.Describe(c.ctx, asked, slices.Sorted(maps.Keys(groups)))
	if err != nil {
		return append(checks, brokerCheck("topics and groups", err))
	}
	for _, b := range found.Brokers {
		if b.Err != nil {
			checks = append(checks, brokerCheck(fmt.Sprintf("broker %d at %s, as the brokers advertise it", b.ID, b.Address), b.Err))
		}
	}
	var readable []string
	for _, name := range topics {
		one := topicCheck("topic "+name, name, found, needed.Topic)
		if checks = append(checks, one); one.Result != Fail {
			readable = append(readable, name)
		}
	}
	checks = append(checks, c.deadLetterTopic(found))
	if name := c.cfg.Receipts.Topic; name != "" {
		checks = append(checks, topicCheck("receipts topic "+name, name, found, needed.Receipts))
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		checks = append(checks, groupCheck(name, found.Groups[name], groups[name]))
	}
	return append(checks, c.lastRecords(readable)...)
}

// groups are those of both lanes, each with the rights that it needs: also a lane that no
// mapping uses, since the other one looks at what was committed for it.
func (c checker) groups() map[string][]string {
	groups := map[string][]string{}
	for _, lane := range schemas.Lanes {
		name := lane.Group(c.cfg.Kafka.Group)
		if groups[name] = needed.Group; len(c.router.Topics(lane)) == 0 {
			groups[name] = needed.OtherGroup
		}
	}
	return groups
}

func brokerCheck(what string, err error) Check {
	if err != nil {
		return Check{what, Fail, fmt.Sprintf("%v; %s", err, cluster.Advice(err))}
	}
	return Check{what, OK, ""}
}

func topicCheck(what, name string, found cluster.Description, needs []string) Check {
	topic := found.Topics[name]
	switch {
	case topic.Missing():
		return Check{what, Fail, "it does not exist; " + cluster.ForMissing(name, found.Names)}
	case cluster.Denied(topic.Err):
		return Check{what, Fail, "it cannot be seen, if it exists; " + grant(needs, "topic", name)}
	case topic.Err != nil:
		return Check{what, Fail, fmt.Sprintf("%v; %s", topic.Err, cluster.Advice(topic.Err))}
	}
	return rightsCheck(what, words.Counted(topic.Partitions, "partition"), topic.Rights, needs, "topic", name)
}

// rightsCheck is of what is there, where the cluster tells which rights the login has.
func rightsCheck(what, found string, has, needs []string, kind, name string) Check {
	if len(has) == 0 {
		return Check{what, OK, joined(found, "whether the login has "+strings.Join(needs, " and ")+" is not checked: the brokers do not tell")}
	}
	if lacks := cluster.Lacks(has, slices.Clone(needs)...); len(lacks) > 0 {
		return Check{what, Fail, joined(found, "the login lacks "+strings.Join(lacks, " and ")+"; "+grant(lacks, kind, name))}
	}
	return Check{what, OK, joined(found, strings.Join(needs, " and ")+" granted")}
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

func grant(rights []string, kind, name string) string {
	return fmt.Sprintf("grant the login %s on the %s %s (deploy/kafka-acls.md)", strings.Join(rights, " and "), kind, name)
}

func (c checker) deadLetterTopic(found cluster.Description) Check {
	name := c.cfg.DLQ.Topic
	if name == "" {
		return Check{"dead-letter topic", Warn, "there is none: a record that can never be applied halts its partition; name one in dlq.topic"}
	}
	return topicCheck("dead-letter topic "+name, name, found, needed.DeadLetters)
}

func groupCheck(name string, group cluster.Group, needs []string) Check {
	what := "group " + name
	switch {
	case cluster.Denied(group.Err):
		return Check{what, Fail, "it cannot be seen; " + grant(needs, "group", name)}
	case group.Err != nil:
		return Check{what, NotChecked, fmt.Sprintf("%v; %s", group.Err, cluster.Advice(group.Err))}
	}
	return rightsCheck(what, "", group.Rights, needs, "group", name)
}
