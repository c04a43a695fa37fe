package deadletter_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/deadletter"
)

var why = deadletter.Reason{Stage: deadletter.Transforming, Code: "value", Message: "status: longer than 255 characters"}

func record(value string) *kgo.Record {
	return &kgo.Record{Topic: "crm.customers", Offset: 7, Value: []byte(value), Timestamp: at}
}

func refuse(c *kfake.Cluster, err *kerr.Error, count int) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: err, Count: count})
}

func TestFailingBrokerIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, err := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.TopicAuthorizationFailed, kerr.UnknownServerError} {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, topic))
			fault := refuse(c, err, 2)
			p, _ := newPost(t, c)
			if err := send(p, record("v"), why).await(t); err != nil {
				t.Errorf("end of the letter: got %v, want posted", err)
			}
			if got := fault.Hits(); got != 2 {
				t.Errorf("refusals met: got %d, want 2", got)
			}
			if got := len(read(t, c, 1)); got != 1 {
				t.Errorf("letters in the topic: got %d, want 1", got)
			}
		})
	}
}

func TestTroubleShowsInTheLogWithoutTheRecord(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, topic))
	refuse(c, kerr.TopicAuthorizationFailed, 1)
	p, out := newPost(t, c)
	end := send(p, record("secret-value"), why)
	out.await(t, "TOPIC_AUTHORIZATION_FAILED")
	for _, words := range []string{"topic=crm.customers", "offset=7", "deadLetterTopic=" + topic, "wait=1s"} {
		out.await(t, words)
	}
	if err := end.await(t); err != nil {
		t.Errorf("end of the letter: got %v, want posted", err)
	}
	if strings.Contains(out.String(), "secret-value") {
		t.Errorf("log: got the record's value: %s", out)
	}
}

func TestMissingTopicIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p, out := newPost(t, c)
	end := send(p, record("v"), why)
	out.await(t, "UNKNOWN_TOPIC_OR_PARTITION")
	makeTopic(t, c, "retention.ms", "-1")
	if err := end.await(t); err != nil {
		t.Errorf("end of the letter: got %v, want posted", err)
	}
	read(t, c, 1)
}

func TestRecreatedTopicIsPostedTo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, topic))
	p, _ := newPost(t, c)
	if err := send(p, record("old"), why).await(t); err != nil {
		t.Fatalf("first letter: %v", err)
	}
	if _, err := kadm.NewClient(newClient(t, c)).DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	makeTopic(t, c, "retention.ms", "-1")
	if err := send(p, record("new"), why).await(t); err != nil {
		t.Errorf("letter after the topic was made again: got %v, want posted", err)
	}
	if got := string(read(t, c, 1)[0].Value); got != "new" {
		t.Errorf("letter in the new topic: got %q, want %q", got, "new")
	}
}

func incompressible(n int) []byte {
	noise := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise) // never fails
	return noise
}

func TestTooLargeForTheTopicIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	makeTopic(t, c, "max.message.bytes", "5000")
	p, _ := newPost(t, c)
	noise := incompressible(8000)
	err := send(p, record(string(noise)), why).await(t)
	if !errors.Is(err, deadletter.ErrRefused) || !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("end of a letter of 8000 bytes where 5000 are allowed: got %v, want ErrRefused for MESSAGE_TOO_LARGE", err)
	}
	if err == nil || bytes.Contains([]byte(err.Error()), noise[:20]) || !strings.Contains(err.Error(), topic) {
		t.Errorf("refusal: got %v, want the topic named and no value", err)
	}
}

func TestSmallLettersAreNotRefusedForTheSizeOfTheirBatch(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	makeTopic(t, c, "max.message.bytes", "2000")
	p, _ := newPost(t, c)
	const letters = 200
	noise := incompressible(1000 * letters)
	var ends []outcome
	for i := range letters {
		ends = append(ends, send(p, record(string(noise[i*1000:(i+1)*1000])), why))
	}
	for _, end := range ends {
		if err := end.await(t); err != nil {
			t.Fatalf("end of a letter of 1000 bytes where 2000 are allowed: got %v, want posted", err)
		}
	}
	if got := len(read(t, c, letters)); got != letters {
		t.Errorf("letters in the topic: got %d, want %d", got, letters)
	}
}

func TestTopicThatTakesLargeRecordsGetsThem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8000000"}))
	makeTopic(t, c, "max.message.bytes", "8000000")
	p, _ := newPost(t, c)
	if err := send(p, record(strings.Repeat("x", 3<<20)), why).await(t); err != nil {
		t.Errorf("end of a letter of 3 MiB where 8 MB are allowed: got %v, want posted", err)
	}
}

func TestPermanentRefusalIsTheEnd(t *testing.T) {
	t.Parallel()
	for refusal, setting := range map[*kerr.Error]string{
		kerr.InvalidRecord: "cleanup.policy", kerr.InvalidTimestamp: "message.timestamp.before.max.ms", kerr.MessageTooLarge: "max.message.bytes",
	} {
		t.Run(refusal.Message, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, topic))
			fault := refuse(c, refusal, -1)
			p, _ := newPost(t, c)
			err := send(p, record("v"), why).await(t)
			if !errors.Is(err, deadletter.ErrRefused) || !errors.Is(err, refusal) {
				t.Errorf("end of the letter: got %v, want ErrRefused for %v", err, refusal)
			}
			if got := deadletter.OpenTopic(err); !strings.Contains(got, "(its "+setting) {
				t.Errorf("what to do about %v: got %q, want the topic's %s named", err, got, setting)
			}
			if got := fault.Hits(); got != 1 && refusal != kerr.MessageTooLarge { // which is tried again in a batch of its own
				t.Errorf("tries: got %d, want 1", got)
			}
		})
	}
}

func TestEveryLetterEndsOnceUnderConcurrentSends(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(4, topic))
	refuse(c, kerr.NotLeaderForPartition, 2)
	p, _ := newPost(t, c)
	const senders, each = 8, 250
	var mu sync.Mutex
	ends := map[int]int{}
	var sending, ended sync.WaitGroup
	ended.Add(senders * each)
	for s := range senders {
		sending.Go(func() {
			for i := range each {
				p.Send(record("v"), why, func(err error) {
					if err != nil {
						t.Errorf("end of a letter: got %v, want posted", err)
					}
					mu.Lock()
					defer mu.Unlock()
					ends[s*each+i]++
					ended.Done()
				})
			}
		})
	}
	sending.Wait()
	ended.Wait()
	for i, n := range ends {
		if n != 1 {
			t.Errorf("ends of letter %d: got %d, want 1", i, n)
		}
	}
	read(t, c, senders*each)
}

func TestCloseEndsWaitingSendsWithoutCallingDone(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *kfake.Cluster, *deadletter.Post, *logs) outcome{
		"waiting to try again": func(t *testing.T, c *kfake.Cluster, p *deadletter.Post, out *logs) outcome {
			refuse(c, kerr.TopicAuthorizationFailed, -1)
			end := send(p, record("v"), why)
			out.await(t, "trying again")
			return end
		},
		"waiting for an answer": func(t *testing.T, c *kfake.Cluster, p *deadletter.Post, _ *logs) outcome {
			asked, never := make(chan struct{}, 10), make(chan struct{})
			t.Cleanup(func() { close(never) })
			c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				asked <- struct{}{}
				c.SleepControl(func() { <-never })
				return nil, nil, false
			})
			end := send(p, record("v"), why)
			<-asked
			return end
		},
		"waiting for the topic": func(t *testing.T, c *kfake.Cluster, p *deadletter.Post, out *logs) outcome {
			if _, err := kadm.NewClient(newClient(t, c)).DeleteTopics(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			end := send(p, record("v"), why)
			out.await(t, "trying again")
			return end
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, topic))
			p, out := newPost(t, c)
			end := prepare(t, c, p, out)
			closed := make(chan struct{})
			go func() { defer close(closed); p.Close() }()
			select {
			case <-closed:
			case <-time.After(patience):
				t.Fatalf("close: not after %v", patience)
			}
			select {
			case err := <-end:
				t.Errorf("done after close: got a call with %v, want none", err)
			default:
			}
			late := send(p, record("late"), why)
			select {
			case err := <-late:
				t.Errorf("done of a letter sent after close: got a call with %v, want none", err)
			default:
			}
		})
	}
}

func TestTopicThatIsNotThereIsToldBeforeTheFirstLetter(t *testing.T) {
	c := newCluster(t)
	p, log := newPost(t, c)
	p.Look(t.Context())
	log.await(t, "the dead-letter topic does not exist")
}
