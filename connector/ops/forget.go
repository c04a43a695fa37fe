package ops

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/forget"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// ForgetOptions say whose data is looked for, and whether it is removed.
type ForgetOptions struct {
	Name   string // of the mapping
	Key    string // of the row
	Remove bool   // what can be
	Reason string // why its dead letters are discarded; see replay.CheckReason
	// ConfigFile is what the report's commands name; "": none, they find theirs.
	ConfigFile string
	// Progress is told with each record how many there are, and how many of them have been
	// read.
	Progress func(read, of int64)
	Log      *slog.Logger
}

// Forget tells where the data of a key is, beside the running sink or without it. With
// Remove it removes what is feedsink's and is not on its way, and then looks again.
func Forget(ctx context.Context, cfg *config.Config, o ForgetOptions) (forget.Report, error) {
	q, done, err := newQuestion(ctx, cfg, WhyOptions{Name: o.Name, Keys: []string{o.Key}, Log: o.Log, Progress: o.Progress})
	if err != nil {
		return forget.Report{}, err
	}
	defer done()
	host, _ := os.Hostname()
	f := &forgetting{ForgetOptions: o, cfg: cfg, mapping: q.mapping, reader: q.reader, asked: q}
	f.report = forget.Report{Mapping: q.mapping.Name, Table: q.mapping.Label, Key: o.Key, Host: host, Yes: o.Remove, Notes: []string{}, Failed: []string{}, Places: []forget.Place{}}
	ctx, held, err := hold(ctx, o.Remove && cfg.DLQ.Topic != "", q.reader, cfg)
	if err != nil {
		return forget.Report{}, err
	}
	defer held.release()
	err = f.run(ctx)
	return f.report, caused(ctx, err)
}

// forgetting is one call of Forget.
type forgetting struct {
	ForgetOptions
	cfg     *config.Config
	mapping *router.Compiled
	reader  *cluster.Reader
	asked   *question // where the records of the key are
	report  forget.Report
}

func (f *forgetting) run(ctx context.Context) error {
	topics, err := f.topics(ctx)
	if err != nil {
		return err
	}
	letters, files, places, err := f.look(ctx)
	if err != nil {
		return err
	}
	var earlier []forget.Place
	if f.Remove {
		earlier = places
		f.remove(ctx, letters, files)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, _, places, err = f.look(ctx); err != nil {
			return err
		}
	}
	f.report.At = time.Now().UTC()
	f.report.Places = append(topics, places...)
	f.report.Close(earlier)
	return nil
}

// look finds the dead letters of the key and its rows in files.
func (f *forgetting) look(ctx context.Context) (letters *forget.Letters, files []spooled, places []forget.Place, err error) {
	if letters, err = f.letters(ctx); err != nil {
		return nil, nil, nil, err
	}
	if files, err = f.files(ctx); err != nil {
		return nil, nil, nil, err
	}
	places = letters.Places()
	for i := range files {
		places = append(places, files[i].place)
	}
	return letters, files, places, nil
}

// remove removes what can be removed; what cannot is noted, and the next look finds it.
func (f *forgetting) remove(ctx context.Context, letters *forget.Letters, files []spooled) {
	for _, err := range append(f.removeLetters(ctx, letters), removeRows(files, f.Key)...) {
		if err != nil && ctx.Err() == nil {
			f.report.Failed = append(f.report.Failed, err.Error())
		}
	}
}

// topics finds the key's records in the mapping's topics, and what the sink holds of them.
func (f *forgetting) topics(ctx context.Context) ([]forget.Place, error) {
	q := f.asked
	found, err := q.find(ctx, &why.Search{Router: q.router, Mapping: q.mapping, Keys: q.Keys, Decoders: q.decoders})
	if err != nil {
		return nil, err
	}
	state, err := q.state(ctx, found)
	if err != nil {
		return nil, err
	}
	f.report.Notes = append(f.report.Notes, q.report.Notes...)
	if len(found) > 0 {
		f.report.Notes = append(f.report.Notes, inMemory)
	}
	key := state.Judge(f.Key, found)
	places := append([]forget.Place{f.table(&key)}, f.receipts(ctx, found)...)
	waiting := 0
	for i := range key.Records {
		if v := key.Records[i].Verdict; v == why.Waiting || v == why.Superseded {
			waiting++
		}
	}
	if waiting > 0 {
		places = append(places, forget.Place{
			Kind: forget.Sink, Where: "group " + f.cfg.Kafka.Group, Holds: words.Counted(waiting, "record") + " not confirmed", State: forget.Goes,
			Why: "their rows are in a member's memory or files until they are confirmed: " + f.command("why", "--mapping", f.mapping.Name) + " tells what they wait for",
		})
	}
	for len(found) > 0 {
		n := 1
		for n < len(found) && cluster.PlaceOf(found[n].Record).TopicPartition == cluster.PlaceOf(found[0].Record).TopicPartition {
			n++
		}
		places = append(places, f.partition(ctx, found[:n]))
		found = found[n:]
	}
	return places, ctx.Err()
}

// inMemory is what no command can look for: Go does not clear memory that it frees.
const inMemory = "sinks that read the records may have their values in memory, and so in a core dump, until they end: restart them when all else has gone"

// table is what the topics tell of the row, and what removes it.
func (f *forgetting) table(key *why.Key) forget.Place {
	p := forget.Place{Kind: forget.Table, Where: f.mapping.Label, State: forget.Others}
	switch table := quoted(f.mapping.Table.Name); {
	case !f.mapping.Table.Custom:
		p.Do = []string{f.command("profile delete", "--table", table, "ID") + ", with the service's id of the profile"}
	case !service.Addressable(f.Key):
		p.Do = []string{f.command("import", "--mapping", f.mapping.Name, "--op delete FILE.csv") + ", of a file with the key: no call can name it"}
	case strings.HasPrefix(f.Key, "-"): // else it would be a flag
		p.Do = []string{f.command("record delete", "--table", table, "--", quoted(f.Key))}
	default:
		p.Do = []string{f.command("record delete", "--table", table, quoted(f.Key))}
	}
	p.Do = append(p.Do, "or have its source delete it: a record that deletes the row, or a tombstone, which the sink carries out in order")
	switch {
	case key.Newest < 0:
		p.Holds, p.Why = "perhaps a row", "no record of the topics tells"
	case key.Records[key.Newest].Op == schemas.Delete.String() && key.Records[key.Newest].Verdict == why.Confirmed:
		p.Holds, p.Why, p.Do = "no row", "the newest record, "+key.Records[key.Newest].String()+", deletes it and is confirmed", nil
	default:
		p.Holds, p.Why = "a row, or none if something else has deleted it", "the newest record is "+key.Records[key.Newest].String()+", "+string(key.Records[key.Newest].Verdict)
	}
	return p
}

// command is one of feedsink's, with the configuration that this one was given.
func (f *forgetting) command(name string, args ...string) string {
	line := []string{"feedsink", name}
	if f.ConfigFile != "" {
		line = append(line, "-c", quoted(f.ConfigFile))
	}
	return strings.Join(append(line, args...), " ")
}

// shownOffsets is how many offsets of a partition a line names.
const shownOffsets = 10

// partition tells of the key's records in a partition, which are others'.
func (f *forgetting) partition(ctx context.Context, found []why.Found) forget.Place {
	at := cluster.PlaceOf(found[0].Record).TopicPartition
	p := forget.Place{Kind: forget.Topic, Where: at.String(), State: forget.Others}
	var shown []string
	newest := map[string]bool{} // whether the newest record of a Kafka key is a tombstone
	for i := range found {
		r := found[i].Record
		p.Offsets = append(p.Offsets, r.Offset)
		if i < shownOffsets {
			shown = append(shown, fmt.Sprint(r.Offset))
		}
		newest[string(r.Key)] = r.Value == nil
	}
	if len(found) > shownOffsets {
		shown = append(shown, fmt.Sprintf("and %d more", len(found)-shownOffsets))
	}
	p.Holds = words.Counted(len(found), "record") + ": offset " + strings.Join(shown, ", ")
	last := found[len(found)-1].Record
	cleanup, err := f.reader.Cleanup(ctx, at.Topic)
	switch {
	case err != nil:
		p.Why = fmt.Sprintf("how the topic loses records is not known: %v", err)
	case cleanup.Compacted:
		p.Why = "compaction keeps the newest record of each Kafka key; a tombstone there removes it, and has the sink delete the row"
		for key, tombstone := range newest {
			if !tombstone {
				p.Do = append(p.Do, f.tombstone(at, key))
			}
		}
		if len(p.Do) == 0 {
			p.Why = "a tombstone is behind them: compaction removes them when it comes to them"
		}
	case cleanup.Retention > 0:
		p.Why, p.Until = fmt.Sprintf("its retention of %s removes them with their segments", forget.Hours(cleanup.Retention)), last.Timestamp.Add(cleanup.Retention).UTC()
	default:
		p.Why = "Kafka removes no single record from this topic, and it has no retention.ms"
	}
	return p
}

// tombstone is a command that writes one. A record's own key is shown only if it is what
// the person typed.
func (f *forgetting) tombstone(at cluster.TopicPartition, key string) string {
	shown := "'KEY OF THE RECORDS'"
	if key == f.Key {
		shown = quoted(key)
	}
	return fmt.Sprintf(`printf '%%s\t\n' %s | kcat -P -b %s -t %s -p %d -K '\t' -Z`, shown, strings.Join(f.cfg.Kafka.Brokers, ","), at.Topic, at.Partition)
}

// quoted is a text as a shell takes it.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.@/:+,", r)
	}
	if text != "" && text[0] != '-' && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
