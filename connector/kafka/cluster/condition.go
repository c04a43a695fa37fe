package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Why a lane waits for Kafka.
const (
	NoTopic     = "missing_topic" // a topic of the configuration does not exist
	Refused     = "kafka_refused" // the login, a right that it lacks, or what is asked for
	Unreachable = "kafka_unreachable"
	NoPlace     = "no_place" // in the group
)

// Condition is something at Kafka that the lane waits for.
type Condition struct {
	Cause string // one of those above
	Topic string // "": of none
	Why   string
}

// placeAfter is how long joining the group takes at most when nothing is wrong.
const placeAfter = 5 * time.Second

// Conditions are what was heard last of the brokers. The methods may be called from any goroutine;
// it is one of the client's hooks.
type Conditions struct {
	mu       sync.Mutex
	brokers  error                // of asking which topics there are; nil: they answered
	group    error                // that ended the membership; nil: it lasts
	topics   map[string]error     // of those that cannot be read
	fetches  map[string]refusedAt // by topic
	commits  refusedAt            // the last one's error, and when the first failed since one was made; nil: it was
	unjoined time.Time            // since when there is no place in the group
}

// stillRefused is for how long a fetch that was refused is told.
const stillRefused = 15 * time.Second

type refusedAt struct {
	err error
	at  time.Time
}

// OnGroupManageError is the client's: the membership has ended.
func (t *Conditions) OnGroupManageError(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.group = err
}

// Joined notes that there is a place in the group.
func (t *Conditions) Joined() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.group = nil
}

// Asked notes what the brokers said of the topics.
func (t *Conditions) Asked(topics kadm.TopicDetails, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.brokers = err
	if err != nil {
		return
	}
	t.topics = map[string]error{}
	for _, topic := range topics {
		if topic.Err != nil {
			t.topics[topic.Topic] = topic.Err
		}
	}
}

// ListTopics asks which topics there are. The client answers for all of them with the
// first right that is missing, and not on which topic: then each is asked for alone.
func ListTopics(ctx context.Context, admin *kadm.Client, names []string) (kadm.TopicDetails, error) {
	topics, err := admin.ListTopics(ctx, names...)
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return topics, err
	}
	topics = kadm.TopicDetails{}
	for _, name := range names {
		alone, err := admin.ListTopics(ctx, name)
		switch {
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			topics[name] = kadm.TopicDetail{Topic: name, Err: err}
		case err != nil:
			return nil, err
		default:
			maps.Copy(topics, alone)
		}
	}
	return topics, nil
}

// Refused notes that records of a topic can't be fetched.
func (t *Conditions) Refused(topic string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fetches == nil {
		t.fetches = map[string]refusedAt{}
	}
	t.fetches[topic] = refusedAt{err, time.Now()}
}

// NotCommitted notes how a commit ended and reports whether it failed.
func (t *Conditions) NotCommitted(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.commits = refusedAt{}
	case slices.ContainsFunc(sharing, func(answer error) bool { return errors.Is(err, answer) }):
	case t.commits.err == nil:
		t.commits = refusedAt{err, time.Now()}
	default:
		t.commits.err = err
	}
	return err != nil
}

// sharing is what a broker answers to a commit while the group shares its partitions anew, or has done so
// without the member, which then joins again.
var sharing = []error{kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.FencedInstanceID, kerr.FencedMemberEpoch, kerr.StaleMemberEpoch}

// one is one of the errors that err joins.
func one(err error) error {
	for {
		joined, is := errors.AsType[interface {
			error
			Unwrap() []error
		}](err)
		if !is {
			return err
		}
		err = joined.Unwrap()[0]
	}
}

// All are what a member of the group waits for at Kafka, in the order of topics. joined says
// that it has its place.
func (t *Conditions) All(joined bool, group string, topics []string, session time.Duration) (all []Condition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.brokers != nil {
		all = append(all, refusal("", "the brokers do not say which topics there are", "", t.brokers))
	}
	for _, topic := range slices.Sorted(maps.Keys(t.topics)) {
		err := t.topics[topic]
		all = append(all, ConditionOf(topic, "topic "+topic+" cannot be read", "topic "+topic+" does not exist; create it, or correct topics of the mapping", toRead, err))
	}
	for _, topic := range slices.Sorted(maps.Keys(t.fetches)) {
		if f := t.fetches[topic]; time.Since(f.at) < stillRefused && t.topics[topic] == nil {
			all = append(all, refusal(topic, "records of topic "+topic+" cannot be fetched", toRead, f.err))
		}
	}
	// While the group waits for a member that has died, commits may wait, too, and come to nothing.
	if t.commits.err != nil && time.Since(t.commits.at) >= session {
		all = append(all, refusal("", "offsets of group "+group+" are not committed, and what is confirmed would be sent again after a restart", "", one(t.commits.err)))
	}
	switch {
	case joined:
		t.unjoined = time.Time{}
		return all
	case t.unjoined.IsZero():
		t.unjoined = time.Now()
	}
	switch {
	case t.group != nil:
		all = append(all, refusal("", "group "+group+" cannot be joined", "", t.group))
	case t.brokers == nil && t.topics == nil && time.Since(t.unjoined) >= placeAfter:
		all = append(all, Condition{Unreachable, "", "no broker has answered yet; check address and port in kafka.brokers, firewalls and network policies in between, " +
			"and kafka.tls: a listener without TLS does not answer a client with TLS"})
	case t.brokers == nil && len(t.topics) < len(topics) && time.Since(t.unjoined) >= placeAfter: // of no topic, no group is joined
		all = append(all, Condition{NoPlace, "", fmt.Sprintf("group %s has no place for this member yet: it waits for its other members; "+
			"one that has died keeps its place until its session of %v ends", group, session)})
	}
	return all
}

// What a login needs on a topic.
const (
	toRead  = "READ and DESCRIBE"
	ToWrite = "WRITE and DESCRIBE"
)

// ConditionOf is what an error about a topic tells of: missing says that there is no
// such topic, what is what cannot be done otherwise, and rights are those that it takes.
func ConditionOf(topic, what, missing, rights string, err error) Condition {
	if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) {
		return Condition{NoTopic, topic, missing}
	}
	return refusal(topic, what, rights, err)
}

// refusal tells a refused login or right from brokers that cannot be asked. rights are
// those on the topic; "": it is about none.
func refusal(topic, what, rights string, err error) Condition {
	if rights != "" && errors.Is(err, kerr.TopicAuthorizationFailed) {
		return Condition{Refused, topic, fmt.Sprintf("%s: %v; grant the login %s on it", what, err, rights)}
	}
	if advice := Refusal(err); advice != "" {
		return Condition{Refused, topic, fmt.Sprintf("%s: %v; %s", what, err, advice)}
	}
	cause := Unreachable
	if answer, is := errors.AsType[*kerr.Error](err); is && !answer.Retriable { // a broker was reached, and says no
		cause = Refused
	}
	return Condition{cause, topic, fmt.Sprintf("%s: %v; %s", what, err, Advice(err))}
}
