//go:build simulation

package simulation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/feedsink/feedsink/connector/observe"
)

// In some lives the brokers lose the ends of logs that they had confirmed, as by an unclean leader
// election, and put other records at their offsets. Their broker keeps its logs on a disk, from where
// it takes them when it is started again.

// cutting has one life of ten be of that kind. Of the others nothing changes with that.
func (p *plan) cutting(seed uint64) { p.cuts = seed%10 == 8 }

// startBroker has the broker listen, with the logs that it had before, once it is open.
func (w *world) startBroker(open <-chan struct{}) (err error) {
	versions := kversion.Tip()
	for _, telemetry := range []kmsg.Key{kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry} { // of which no judge has a use
		versions.SetMaxKeyVersion(telemetry.Int16(), -1)
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1), kfake.MaxVersions(versions), kfake.Ports(9092), kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := w.network.Listen(network, address)
			return opening{l, open}, err
		}),
		kfake.SeedTopics(w.plan.partitions, "crm", "shop"), kfake.SeedTopics(1, "dlq"),
	}
	if w.plan.cuts {
		opts = append(opts, kfake.DataDir(w.logDir()))
	}
	if w.broker, err = kfake.NewCluster(opts...); err != nil {
		return err
	}
	w.broker.ControlKey(int16(kmsg.Produce), w.produced)
	return nil
}

// opening takes connections once it is open.
type opening struct {
	net.Listener
	open <-chan struct{}
}

func (o opening) Accept() (net.Conn, error) {
	<-o.open
	return o.Listener.Accept()
}

func (w *world) logDir() string { return filepath.Join(w.dir, "broker") }

// lost begins the keys of records that the brokers lose: they may be in the table or not.
func (t *table) lost() string { return t.name + "-lost-" }

// cutLogs has the logs of a topic, all of which is confirmed, get further records, which may be read
// and written, and lose them. Members are started again then, as the halted partitions ask for.
func (w *world) cutLogs() (string, func(), time.Duration) {
	t, ctx := w.anyTable(), context.Background()
	w.feeding <- struct{}{}
	defer func() { <-w.feeding }()
	if !w.allConfirmed(ctx, t) {
		return "", nil, 0
	}
	letters, err := w.deadLetters(ctx)
	ends, err2 := w.admin.ListEndOffsets(ctx, t.topic)
	if err = errors.Join(err, err2); err != nil {
		w.fail("cut logs: %v", err)
		return "", nil, 0
	}
	for id := range int32(len(ends[t.topic])) { //nolint:gosec // there are few
		for range w.rnd.IntN(4) {
			w.load.number++
			e := &event{op: "upsert", values: map[string]string{"seq": fmt.Sprint(w.load.number), "note": "lost"}}
			r := w.load.record(t, t.lost()+fmt.Sprint(w.load.number), &key{partition: id}, e)
			if err := w.client.ProduceSync(ctx, r).FirstErr(); err != nil {
				w.fail("produce: %v", err)
			}
		}
	}
	time.Sleep(w.between(time.Millisecond, time.Minute))
	if w.rnd.IntN(2) == 0 { // no member runs when the log is cut
		for _, m := range w.members {
			m.kill(w.rnd.IntN(2) == 0)
		}
	}
	w.broker.Close()
	for id, end := range ends[t.topic] {
		err = errors.Join(err, cutLog(filepath.Join(w.logDir(), "partitions", fmt.Sprintf("%s-%d", t.topic, id)), end.Offset))
	}
	time.Sleep(w.between(time.Second, time.Minute))
	open := make(chan struct{})
	defer close(open)
	if err = errors.Join(err, w.startBroker(open)); err != nil {
		w.fail("cut logs: %v", err)
		return "", nil, 0
	}
	w.cuts++
	for id := range ends[t.topic] { // before anybody is told of the former epoch
		for range w.cuts { // a log without records of its newest leader epoch has lost that, too
			err = errors.Join(err, w.broker.MoveTopicPartition(t.topic, id, 0))
		}
	}
	if err != nil {
		w.fail("cut logs: %v", err)
	}
	t.letters = append(t.letters, len(letters))
	w.say("%s has lost the ends of its logs", t.topic)
	return "members are started again", w.startHalted, w.between(30*time.Second, 10*time.Minute)
}

// cutLog cuts the log in a folder before the first batch that begins at the offset.
func cutLog(dir string, at int64) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.dat"))
	for _, name := range files {
		log, e := os.ReadFile(name)
		err = errors.Join(err, e)
		for begins := 0; begins+12 <= len(log); begins += 12 + int(binary.BigEndian.Uint32(log[begins+8:])) {
			if int64(binary.BigEndian.Uint64(log[begins:])) >= at { //nolint:gosec // offsets are no more
				err = errors.Join(err, os.Truncate(name, int64(begins)))
				break
			}
		}
	}
	return err
}

// startHalted starts members again until none has a partition whose log was cut.
func (w *world) startHalted() {
	for range 5 {
		for _, m := range w.members {
			m.start()
		}
		time.Sleep(2*w.plan.session + 2*time.Minute)
		if !w.restartHalted() {
			return
		}
	}
	w.fail("partitions stay halted whose logs were cut, however often the members are started again")
}

// restartHalted starts members again that have such a partition. It reports whether there are any.
func (w *world) restartHalted() (again bool) {
	for _, m := range w.members {
		if m.on && m.haltedByACut() {
			again = true
			m.end()
			m.start()
		}
	}
	return again
}

func (m *member) haltedByACut() bool {
	for _, l := range m.sink.Status().(observe.Status).Lanes {
		for _, p := range l.Partitions {
			if slices.ContainsFunc(p.Halted, func(reason string) bool { return strings.Contains(reason, "lost by the brokers") }) {
				return true
			}
		}
	}
	return false
}
