package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// The rights of Kafka's authorizers that a sink needs.
const (
	Read     = "READ"
	Write    = "WRITE"
	Describe = "DESCRIBE"
)

// Description is what a cluster says to the login of a connection.
type Description struct {
	Brokers []Broker         // those that the cluster names, by id
	Topics  map[string]Topic // those that were asked for
	Names   []string         // of all topics that the login may see
	Groups  map[string]Group // those that were asked for
}

// Broker is one address of the cluster and how it was reached.
type Broker struct {
	ID      int32
	Address string // host:port
	Err     error  // nil: it answers
}

// Topic is what the cluster says about a topic.
type Topic struct {
	Partitions int
	Rights     []string // that the login has on it; none: the broker does not tell
	Err        error    // it does not exist, or we may not see it
}

// Missing reports whether the topic does not exist.
func (t Topic) Missing() bool { return errors.Is(t.Err, kerr.UnknownTopicOrPartition) }

// Denied reports whether an error says that the login lacks a right on the topic or group.
func Denied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed)
}

// Group is what the cluster says about a consumer group, which need not exist yet.
type Group struct {
	Rights []string // that the login has on it; none: the broker does not tell
	Err    error
}

// Lacks are those of the wanted rights that are not among the granted.
func Lacks(granted []string, wanted ...string) []string {
	return slices.DeleteFunc(wanted, func(w string) bool { return slices.Contains(granted, w) })
}

// asker is a client for commands that ask once and want to know what is wrong at once.
func (c Connection) asker() (*kgo.Client, error) {
	asked := kversion.Stable()
	asked.SetMaxKeyVersion(int16(kmsg.DescribeGroups), 5) // newer ones tell no rights on a group that does not exist yet
	return c.NewClient(kgo.RequestRetries(1), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.MaxVersions(asked), kgo.MetadataMinAge(100*time.Millisecond))
}

// Seeds asks each of the connection's addresses by itself. It returns within ctx.
func (c Connection) Seeds(ctx context.Context) []Broker {
	seeds := make([]Broker, len(c.Brokers))
	var asking sync.WaitGroup
	for i, address := range c.Brokers {
		asking.Go(func() {
			seeds[i] = Broker{Address: address, Err: c.only(address).ping(ctx)}
		})
	}
	asking.Wait()
	return seeds
}

func (c Connection) ping(ctx context.Context) error {
	client, err := c.asker()
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).BrokerMetadata(ctx)
	return c.inTime(ctx, err)
}

// errSilentTLS is what a listener without TLS may come to: it waits for more.
var errSilentTLS = errors.New("no answer to the greeting of TLS")

// inTime says in our words that there was no answer.
func (c Connection) inTime(ctx context.Context, err error) error {
	switch {
	case err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return err
	case c.TLS != nil:
		return fmt.Errorf("%w: %w", errSilentTLS, ctx.Err())
	}
	return fmt.Errorf("no answer: %w", ctx.Err())
}

// Describe asks the cluster about its brokers, and about these topics and groups: what
// there is, and which rights the login has. Nothing is created, and no group is joined.
// The error is about the cluster as a whole.
func (c Connection) Describe(ctx context.Context, topics, groups []string) (Description, error) {
	d := Description{Topics: map[string]Topic{}, Groups: map[string]Group{}}
	client, err := c.asker()
	if err != nil {
		return d, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	answer, err := metadata(ctx, client, topics)
	if err != nil {
		return d, fmt.Errorf("list topics: %w", c.inTime(ctx, err))
	}
	for _, t := range answer.Topics {
		if t.Topic != nil {
			d.Topics[*t.Topic] = Topic{len(t.Partitions), rights(kadm.DecodeACLOperations(t.AuthorizedOperations)), kerr.ErrorForCode(t.ErrorCode)}
		}
	}
	if all, err := admin.ListTopics(ctx); err == nil { // only to propose names
		d.Names = all.Names()
	}
	d.Brokers = make([]Broker, len(answer.Brokers))
	var asking sync.WaitGroup
	for i, b := range answer.Brokers {
		asking.Go(func() {
			answer, err := client.Broker(int(b.NodeID)).Request(ctx, apiVersions())
			if known, ok := answer.(*kmsg.ApiVersionsResponse); ok && err == nil && known.ErrorCode == 0 {
				err = tooOld(known)
			}
			d.Brokers[i] = Broker{b.NodeID, net.JoinHostPort(b.Host, fmt.Sprint(b.Port)), c.inTime(ctx, err)}
		})
	}
	found := make([]Group, len(groups))
	for i, name := range groups { // one by one: a refusal of one would hide the others
		asking.Go(func() {
			described, err := admin.DescribeGroups(ctx, name)
			found[i] = Group{rights(described[name].AuthorizedOperations), cmp.Or(err, described[name].Err)}
		})
	}
	asking.Wait()
	for i, name := range groups {
		if errors.Is(found[i].Err, kerr.GroupIDNotFound) {
			found[i].Err = nil // no member has joined it yet
		}
		d.Groups[name] = found[i]
	}
	slices.SortFunc(d.Brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	return d, nil
}

func apiVersions() *kmsg.ApiVersionsRequest {
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "feedsink", "check" // brokers refuse to be asked without
	return request
}

// ErrTooOld says that a broker lacks what a sink needs.
var ErrTooOld = errors.New("the broker is too old; a sink needs Kafka 0.11 or newer")

func tooOld(known *kmsg.ApiVersionsResponse) error {
	is, needs := kversion.FromApiVersionsResponse(known), oldest()
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Fetch} {
		has, _ := is.LookupMaxKeyVersion(int16(key))
		if least, _ := needs.LookupMaxKeyVersion(int16(key)); has < least {
			return fmt.Errorf("%w: it seems to be of %s", ErrTooOld, is.VersionGuess())
		}
	}
	return nil
}

// metadata asks about topics, with rights. The library's own call tells nothing of all
// topics where the login may not see one.
func metadata(ctx context.Context, client *kgo.Client, topics []string) (*kmsg.MetadataResponse, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.IncludeTopicAuthorizedOperations = true
	request.Topics = []kmsg.MetadataRequestTopic{} // none is not all
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	return request.RequestWith(ctx, client)
}

func rights(granted []kadm.ACLOperation) (names []string) {
	for _, op := range granted {
		names = append(names, op.String())
	}
	return names
}
