package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/router/problem"
)

// refusals are errors of brokers that say what has to be corrected.
var refusals = []struct {
	err    error
	advice string
}{
	{kerr.SaslAuthenticationFailed, "the login is refused; correct kafka.sasl"},
	{kerr.UnsupportedSaslMechanism, "the listener does not have this mechanism; correct kafka.sasl.mechanism, or take another port"},
	{kerr.IllegalSaslState, "the listener takes no login; remove kafka.sasl, or take the port of the listener that does"},
	{kerr.TopicAuthorizationFailed, "grant the login READ and DESCRIBE on the topic, or WRITE on the dead-letter topic"},
	{kerr.GroupAuthorizationFailed, "grant the login READ on the group"},
	{kerr.ClusterAuthorizationFailed, "grant the login the right on the cluster"},
	{kerr.OffsetMetadataTooLarge, "set offset.metadata.max.bytes of the brokers to 4096, as it is by default: feedsink's ledger is in it"},
	{kerr.PolicyViolation, "a policy of the brokers refuses it: their log, or who runs them, says which"},
}

// Refusal is what a person has to do about an error by which a broker refuses the login
// or a right; "" where it is another error.
func Refusal(err error) string {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.advice
		}
	}
	return ""
}

// Failure is an error of Kafka's, or of the way there, that a Reader came to: Advice says
// what to do about it.
type Failure struct{ err error }

// Error is that of the client.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap is the client's error.
func (f *Failure) Unwrap() error { return f.err }

// failure is fmt.Errorf for a Failure.
func failure(format string, args ...any) error { return &Failure{fmt.Errorf(format, args...)} }

// MissingTopic says that there is no such topic. It is kerr.UnknownTopicOrPartition.
type MissingTopic struct {
	Topic string
	Near  string // what to do; with the name of the topic that may be meant
}

// Error says it in our words.
func (m *MissingTopic) Error() string { return "topic " + m.Topic + " does not exist" }

// Unwrap is how brokers say it.
func (m *MissingTopic) Unwrap() error { return kerr.UnknownTopicOrPartition }

// ForMissing is what to do about a topic that does not exist, beside all those that do.
func ForMissing(name string, all []string) string {
	const advice = "create it, or correct the name"
	similar := problem.Similar(name, all...)
	if similar == "" {
		short := name[strings.LastIndexAny(name, "._-")+1:]
		if i := slices.IndexFunc(all, func(other string) bool { return strings.Contains(other, short) }); i >= 0 {
			similar = fmt.Sprintf("did you mean %q?", all[i])
		}
	}
	if similar == "" {
		return advice
	}
	return advice + ", " + similar
}

// Advice is what a person has to do about an error of a broker.
func Advice(err error) string {
	if missing, ok := errors.AsType[*MissingTopic](err); ok {
		return missing.Near
	}
	if refused := Refusal(err); refused != "" {
		return refused
	}
	if isTLS := adviceOnTLS(err); isTLS != "" {
		return isTLS
	}
	var dns *net.DNSError
	var closed *kgo.ErrFirstReadEOF
	var answer *kerr.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no host of this name; correct kafka.brokers, or the advertised listeners of the brokers"
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return "create the topic, or correct its name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at this port; correct kafka.brokers, or start the broker"
	case errors.As(err, &closed):
		return "the broker closes the connection: its listener may want TLS (kafka.tls.enabled: true), a login (kafka.sasl), or another port may be meant"
	case errors.Is(err, kerr.CoordinatorNotAvailable), errors.Is(err, kerr.CoordinatorLoadInProgress):
		return "the brokers do not know the groups yet, as after the start of a new cluster; try again in a minute"
	case errors.Is(err, kerr.NotEnoughReplicas), errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return "fewer replicas of a topic's partition are in sync than its min.insync.replicas; see that all brokers run"
	case errors.Is(err, ErrTooOld):
		return "upgrade the brokers to Kafka 0.11 or newer"
	case errors.Is(err, io.EOF):
		return "the broker closed the connection, as some do with a login or certificate that they refuse; check kafka.sasl and kafka.tls"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return "nothing answers in time; check address and port, and firewalls and network policies in between"
	case errors.As(err, &answer):
		return "a broker has answered so; its log says more"
	}
	return "check kafka.brokers, kafka.tls and kafka.sasl: a broker may close the connection of a login or certificate that it refuses"
}

func adviceOnTLS(err error) string {
	var certificate *tls.CertificateVerificationError
	var remote *net.OpError
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &certificate):
		return "the broker's certificate is not trusted; set kafka.tls.caFile to the authority that issued it, and name the broker as its certificate does"
	case errors.Is(err, errSilentTLS):
		return "check address and port, and firewalls and network policies in between; or the listener does not speak TLS: set kafka.tls.enabled: false, or take the port of its TLS listener"
	case errors.Is(err, errClosedTLS):
		return "the listener may not speak TLS: remove kafka.tls, or take the port of its TLS listener; or it refuses the client's certificate (kafka.tls.certFile)"
	case errors.As(err, &header):
		return "the listener does not speak TLS; set kafka.tls.enabled: false, or take the port of its TLS listener"
	case errors.As(err, &remote) && remote.Op == "remote error": // an alert of TLS
		return "the broker refuses the TLS connection; if it asks for a certificate, set kafka.tls.certFile and keyFile"
	}
	return ""
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// Deleted says that retention has deleted records of a partition before they were read, and what the group's
// owner can do. why says more of it.
func Deleted(topic string, partition int32, what, why, group string) string {
	return fmt.Sprintf("%s[%d]: %s: records were deleted by the topic's retention before they were read%s. The partition waits. To go on without them, stop feedsink and "+
		"set the offset of group %s with kafka-consumer-groups --reset-offsets", topic, partition, what, why, group)
}

// Cut says that a partition's log was cut at an offset, and what its owner can do.
func Cut(topic string, partition int32, what string, at int64) string {
	return fmt.Sprintf("%s[%d]: %s: records were lost by the brokers, which may put others at their offsets. What was noted beyond offset %d is forgotten, so that no new record is skipped. "+
		"The partition waits. Find out which records are lost, have them produced again, and restart feedsink: "+
		"it reads on from offset %d at the latest, and repeats what it had confirmed of that", topic, partition, what, at, at)
}
