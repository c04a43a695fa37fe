package replay

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// Discard ends dead letters without sending them: they stay in the topic, and a replay
// leaves them.
type Discard struct {
	Topic     string // of the dead letters
	Connector string // the configured group: only its dead letters are discarded
	Filter    Filter
	Chosen    func(*deadletter.Received) bool // of those, only these; nil: all
	Reason    string                          // why, in the operator's words; see CheckReason
	Tried     bool                            // also those that a replay which did not end may have sent
	DryRun    bool
	Reader    *cluster.Reader
	Log       *slog.Logger
}

// DiscardReport is what was discarded, or with DryRun what would have been.
type DiscardReport struct {
	DryRun    bool `json:"dryRun"`
	Discarded int  `json:"discarded"`
	Tried     int  `json:"tried"`   // left: a replay which did not end may have sent them
	Done      int  `json:"done"`    // ended before
	Foreign   int  `json:"foreign"` // records of the topic that are no letters of this connector
}

// maxReason is how long a reason may be, in bytes.
const maxReason = 200

// CheckReason reports what is wrong with a reason.
func CheckReason(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("say why, in words for those who look at the letters later")
	case len(text) > maxReason:
		return fmt.Errorf("must be at most %d bytes, has %d", maxReason, len(text))
	}
	return nil
}

// Run discards the open dead letters that the topic holds when it begins. After an error
// none or only some of them may be marked; run it again.
func (d *Discard) Run(ctx context.Context) (report DiscardReport, err error) {
	report.DryRun = d.DryRun
	marks, err := LoadMarks(ctx, d.Reader, d.Topic, d.Connector, d.Log)
	if err != nil {
		return report, err
	}
	err = marks.Letters(ctx, func(_ *deadletter.Record, l *deadletter.Received) error {
		if l == nil {
			report.Foreign++
			return nil
		}
		if !d.Filter.Match(l) || d.Chosen != nil && !d.Chosen(l) {
			return nil
		}
		switch state, _ := marks.State(l); {
		case state.Ended():
			report.Done++
		case state == deadletter.StateTried && !d.Tried:
			report.Tried++
		default:
			report.Discarded++
			marks.discard(l, d.Reason)
		}
		return nil
	})
	if err != nil || d.DryRun {
		return report, err
	}
	return report, marks.save(ctx)
}

// discards are the discarded dead letters of a chunk, by reason.
type discards map[string]*bitmap

func (d discards) add(i int64, reason string) {
	if d[reason] == nil {
		d[reason] = &bitmap{}
	}
	d[reason].set(i)
}

func (d discards) reason(i int64) (string, bool) {
	for reason, letters := range d {
		if letters.has(i) {
			return reason, true
		}
	}
	return "", false
}

// discardVersion opens the metadata of a commit that says why letters were discarded.
const discardVersion = "discard1."

// encode is the metadata of the commit. Few letters, or many in a row, take little of it.
func (d discards) encode(topic ack.TopicID) (string, error) {
	var packed bytes.Buffer
	packed.Write(topic[:])
	w, _ := flate.NewWriter(&packed, flate.BestCompression) // the level is one that exists
	for _, reason := range slices.Sorted(maps.Keys(d)) {
		_, _ = w.Write(binary.AppendUvarint(nil, uint64(len(reason)))) // into memory: none fails
		_, _ = io.WriteString(w, reason)
		_, _ = w.Write(d[reason][:])
	}
	_ = w.Close()
	text := discardVersion + base64.RawURLEncoding.EncodeToString(packed.Bytes())
	if len(text) > ack.MetadataLimit {
		return "", fmt.Errorf("the reasons of discarded letters take %d bytes, and a broker keeps %d for %d letters: nothing was discarded; "+
			"repeat the words of an earlier reason (feedsink dlq list --all shows them)", len(text), ack.MetadataLimit, chunkSize)
	}
	return text, nil
}

// maxReasons bounds what metadata of others may unpack to: many times what fits.
const maxReasons = 1 << 20

func decodeDiscards(metadata string, topic ack.TopicID) (discards, error) {
	text, ours := strings.CutPrefix(metadata, discardVersion)
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if !ours || err != nil || len(packed) < len(topic) {
		return nil, errForeign
	}
	if ack.TopicID(packed[:len(topic)]).Differs(topic) {
		return nil, errOldTopic
	}
	all, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed[len(topic):])), maxReasons))
	if err != nil {
		return nil, errForeign
	}
	d := discards{}
	for len(all) > 0 {
		n, size := binary.Uvarint(all)
		if size <= 0 || n > maxReason || len(all) < size+int(n)+chunkSize/8 {
			return nil, errForeign
		}
		all = all[size:]
		reason, letters := string(all[:n]), bitmap(all[n:n+chunkSize/8])
		d[reason], all = &letters, all[n+chunkSize/8:]
	}
	return d, nil
}
