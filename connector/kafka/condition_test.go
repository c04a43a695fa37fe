package kafka_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// TestTopicThatIsRefusedIsNamed: and only it, with the rights that a lane needs.
func TestTopicThatIsRefusedIsNamed(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a", "b")
	b.ControlKey(kmsg.Metadata.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		asked := req.(*kmsg.MetadataRequest).Topics
		if !slices.ContainsFunc(asked, func(topic kmsg.MetadataRequestTopic) bool { return topic.Topic != nil && *topic.Topic == "b" }) {
			return nil, nil, false
		}
		response := req.ResponseKind().(*kmsg.MetadataResponse)
		broker := kmsg.NewMetadataResponseBroker()
		host, port, _ := net.SplitHostPort(b.ListenAddrs()[0])
		number, _ := strconv.Atoi(port)
		broker.Host, broker.Port = host, int32(number)
		response.Brokers = append(response.Brokers, broker)
		for _, topic := range asked {
			answer := kmsg.NewMetadataResponseTopic()
			answer.Topic, answer.ErrorCode = topic.Topic, kerr.TopicAuthorizationFailed.Code
			if *topic.Topic == "a" {
				answer.ErrorCode = 0
			}
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, true
	})
	m := b.join(newLane(t), func(cfg *kafka.Config) { cfg.Topics = []string{"a", "b"} })
	eventually(t, "the topic is named", func() (bool, any) {
		got := m.Conditions()
		return slices.ContainsFunc(got, func(trouble cluster.Condition) bool {
			return trouble.Cause == cluster.Refused && trouble.Topic == "b" && strings.HasPrefix(trouble.Why, "topic b cannot be read: ") &&
				strings.HasSuffix(trouble.Why, "; grant the login READ and DESCRIBE on it")
		}) && !slices.ContainsFunc(got, func(trouble cluster.Condition) bool {
			return trouble.Topic == "a" || trouble.Cause == cluster.Refused && trouble.Topic == ""
		}), got
	})
}

// TestRightToWriteIsAdvisedWhereATopicIsWritten: the dead-letter topic is not read.
func TestRightToWriteIsAdvisedWhereATopicIsWritten(t *testing.T) {
	got := cluster.ConditionOf("dlq", "dead-letter topic dlq cannot be written", "", cluster.ToWrite, kerr.TopicAuthorizationFailed)
	if got.Cause != cluster.Refused || !strings.HasSuffix(got.Why, "; grant the login WRITE and DESCRIBE on it") {
		t.Errorf("got %+v, want a refusal and the right to write", got)
	}
}

// TestAnswerOfABrokerIsNoBrokerThatIsAway: what it says decides what is told.
func TestAnswerOfABrokerIsNoBrokerThatIsAway(t *testing.T) {
	for err, want := range map[error]struct{ cause, advice string }{
		kerr.PolicyViolation:       {cluster.Refused, "a policy of the brokers refuses it"},
		kerr.InvalidRequiredAcks:   {cluster.Refused, "a broker has answered so"},
		kerr.NotEnoughReplicas:     {cluster.Unreachable, "min.insync.replicas"},
		kerr.LeaderNotAvailable:    {cluster.Unreachable, "a broker has answered so"},
		syscall.ECONNREFUSED:       {cluster.Unreachable, "nothing listens at this port"},
		context.DeadlineExceeded:   {cluster.Unreachable, "nothing answers in time"},
		errors.New("closed early"): {cluster.Unreachable, "check kafka.brokers, kafka.tls and kafka.sasl"},
	} {
		got := cluster.ConditionOf("dlq", "dead-letter topic dlq cannot be written", "", cluster.ToWrite, err)
		if got.Cause != want.cause || !strings.Contains(got.Why, want.advice) {
			t.Errorf("%v: got %+v, want %s and %q", err, got, want.cause, want.advice)
		}
	}
}

// TestRefusedGroupIsTold: and no more once the group lets the member in.
func TestRefusedGroupIsTold(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	var admitted atomic.Bool
	b.ControlKey(kmsg.JoinGroup.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if admitted.Load() {
			return nil, nil, false
		}
		response := req.ResponseKind().(*kmsg.JoinGroupResponse)
		response.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return response, nil, true
	})
	m := b.join(newLane(t))
	eventually(t, "the refusal is told", func() (bool, any) {
		got := m.Conditions()
		return len(got) == 1 && got[0].Cause == cluster.Refused, got
	})
	admitted.Store(true)
	eventually(t, "nothing is told any more", func() (bool, any) {
		got := m.Conditions()
		return len(got) == 0, got
	})
}
