//go:build !image

package e2e_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/forget"
)

// keeping keeps the output files of each import, and a file that FAILED at once.
var keeping = strings.NewReplacer("roll: {rows: 500, bytes: 1MiB, age: 500ms}", "roll: {rows: 500, bytes: 1MiB, age: 500ms}\n      keepResults: true\n      retryFailed: 0").Replace(mappings)

func withResultFiles(c *sandbox.Config) {
	withStrictTables(c)
	c.ETLs[0].Loads[0].GenerateResultFiles = true
}

// marked is a change of a customer whose values all carry the customer's mark.
func marked(of, tier, lastName string) *kgo.Record {
	return event("customers", of, fmt.Sprintf(`{"op":"upsert","key":{"customerNumber":"%[1]s"},"attributes":{"customerNumber":"%[1]s","lastName":"%[2]s","emailAddress":"%[1]s@example.com"},"segments":{"tier":"%[3]s"}}`, of, lastName, tier))
}

// spooled is all that the files of the spool say, unpacked, by name.
func (w *world) spooled() map[string]string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, "spool"))
	if err != nil && !os.IsNotExist(err) { // the sink has just begun
		w.t.Fatal(err)
	}
	said := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(w.dir, "spool", e.Name()))
		if err != nil {
			continue // its import was confirmed meanwhile
		}
		if z, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
			if content, err = io.ReadAll(z); err != nil {
				w.t.Fatalf("%s: %v", e.Name(), err)
			}
		}
		said[e.Name()] = string(content)
	}
	return said
}

// kept are those of the spooled files that have a suffix.
func kept(files map[string]string, suffix string) (all string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, suffix) {
			all += files[name]
		}
	}
	return all
}

// remaining are what the dead-letter topic holds.
func (w *world) remaining() (records []*kgo.Record) {
	w.t.Helper()
	starts, err := w.admin.ListStartOffsets(w.t.Context(), w.topic("dlq"))
	if err != nil {
		w.t.Fatal(err)
	}
	ends, err := w.admin.ListEndOffsets(w.t.Context(), w.topic("dlq"))
	if err != nil {
		w.t.Fatal(err)
	}
	start, _ := starts.Lookup(w.topic("dlq"), 0)
	end, _ := ends.Lookup(w.topic("dlq"), 0)
	if start.Offset == end.Offset {
		return nil
	}
	client, err := kgo.NewClient(w.reach(kgo.ConsumeTopics(w.topic("dlq")))...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	for next := start.Offset; next < end.Offset; {
		fetches := client.PollFetches(w.t.Context())
		if err := fetches.Err(); err != nil {
			w.t.Fatal(err)
		}
		records = append(records, fetches.Records()...)
		if n := len(records); n > 0 {
			next = records[n-1].Offset + 1
		}
	}
	return records
}

// forgets runs the command for the customers and reads its report.
func (w *world) forgets(words string, want int) (r forget.Report) {
	w.t.Helper()
	return w.forgetsOf("customers", words, want)
}

func (w *world) forgetsOf(mapping, words string, want int) (r forget.Report) {
	w.t.Helper()
	out, code := w.execute("forget --mapping " + mapping + " -o json " + words)
	text, _, _ := strings.Cut(out, "\nfeedsink: ")
	if err := json.Unmarshal([]byte(text), &r); err != nil || code != want {
		w.t.Fatalf("forget %s: got exit code %d, %v and\n%s\nwant %d", words, code, err, out, want)
	}
	return r
}

// states are how many places of a kind are in each state.
func states(r forget.Report, of forget.Kind) map[forget.State]int {
	n := map[forget.State]int{}
	for _, p := range r.Places {
		if p.Kind == of {
			n[p.State]++
		}
	}
	return n
}

// A customer's data is in a file that FAILED, in output files that are kept and in dead
// letters of both lanes. Afterwards it is nowhere, and another customer's is where it was.
func TestForgottenCustomerIsFoundNowhere(t *testing.T) {
	t.Parallel()
	const one, other = mark + "one", "zz8other"
	w := newWorld(t, withResultFiles)
	w.service.FailImports("customers", 1, "no such file")
	if err := w.service.RejectRows(sandbox.Rejection{Column: "lastName", Match: "^Nemo", Reason: "nobody of this name"}); err != nil {
		t.Fatal(err)
	}
	// Both customers are in the file that FAILED, however far apart their records arrive.
	sink := w.run(head + deadLetters + strings.Replace(keeping, "rows: 500, bytes: 1MiB, age: 500ms", "rows: 2, bytes: 1MiB, age: 1h", 1))
	w.produce(marked(one, "basic", one), marked(other, "basic", other))
	w.until("the file that FAILED is kept", func() bool { return strings.Contains(kept(w.spooled(), ".failed"), one) })

	// It is on its way while the mapping is halted: not touched.
	r := w.forgets("--yes "+one, 1)
	if got := states(r, forget.File); got[forget.Goes] != 1 || !strings.Contains(kept(w.spooled(), ".failed"), one) || states(r, forget.Sink)[forget.Goes] != 1 {
		t.Errorf("of a halted import: got %v and %+v, want its file left, and the record told of", got, r.Places)
	}

	// Another process builds it again elsewhere, and what was kept here belongs to no import.
	sink.terminate(t)
	left, err := filepath.Glob(filepath.Join(w.dir, "spool", "*.failed"))
	if err != nil || len(left) != 1 {
		t.Fatalf("kept files: got %v and %v, want one", left, err)
	}
	aside := filepath.Join(w.dir, filepath.Base(left[0]))
	if err := os.Rename(left[0], aside); err != nil {
		t.Fatal(err)
	}
	sink = w.run(head + deadLetters + keeping)
	w.until("released", func() bool {
		_, code := w.ask("imports release --mapping customers --server http://" + sink.admin(w))
		return code == 0
	})
	w.settled()
	w.produce(marked(one, "basic", "Nemo "+one), marked(other, "basic", "Nemo "+other))
	w.settled()
	w.produce(marked(one, "gold", one+" is far too long a name"))
	w.produce(event("customers", one, `{"op":"`+one+`"`))
	w.settled()
	w.until("four dead letters", func() bool { return len(w.dead()) == 4 })
	if err := os.Rename(aside, left[0]); err != nil {
		t.Fatal(err)
	}
	before := w.spooled()
	if !strings.Contains(kept(before, ".failed"), one) || strings.Count(kept(before, ".errors"), one) < 3 {
		t.Fatalf("the spool has %v, want the customer in what is kept", before)
	}

	r = w.forgets(one, 1)
	if got := states(r, forget.File); got[forget.Removable] < 3 || r.Yes {
		t.Errorf("before: got files %v, want all that are kept to be removable", got)
	}
	if got := w.spooled(); kept(got, ".failed") != kept(before, ".failed") || kept(got, ".errors") != kept(before, ".errors") || len(w.remaining()) != 4 {
		t.Error("without --yes something was removed")
	}

	// The other's letter comes after at least one of this customer's, and before at least one.
	r = w.forgets("--yes "+one, 1)
	if got := states(r, forget.File); got[forget.Removed] < 3 || len(got) != 1 {
		t.Errorf("after: got files %v, want all removed", got)
	}
	after := w.spooled()
	for name, said := range after {
		if strings.Contains(said, mark) {
			t.Errorf("%s still has the customer:\n%s", name, said)
		}
	}
	var want string
	for line := range strings.Lines(kept(before, ".failed")) {
		if !strings.Contains(line, one) {
			want += line
		}
	}
	if got := kept(after, ".failed"); got != want || !strings.Contains(got, other) {
		t.Errorf("the file that FAILED: got\n%s\nwant\n%s", got, want)
	}
	if got := states(r, forget.Letter)[forget.Goes]; got == 0 {
		t.Errorf("letters behind another's: got %d that go with retention, want some", got)
	}
	if out, code := w.execute("dlq list"); code != 0 || strings.Count(out, "  open  ") != 1 {
		t.Errorf("open letters: got exit code %d and\n%s\nwant the other's alone", code, out)
	}

	// Once the other's has ended, Kafka can delete them.
	if out, code := w.execute("dlq discard --reason test --key " + other); code != 0 {
		t.Fatalf("discard: got exit code %d and %s", code, out)
	}
	r = w.forgets("--yes "+one, 0)
	if r.Left != 0 {
		t.Errorf("at last: got %d places left of %+v, want none", r.Left, r.Places)
	}
	for _, l := range w.remaining() {
		if bytes.Contains(l.Key, []byte(mark)) || bytes.Contains(l.Value, []byte(mark)) {
			t.Errorf("the dead letter at %d still has the customer", l.Offset)
		}
	}
	out, _ := w.execute("forget --mapping customers " + one)
	tellsNothing(t, map[string]string{"the report but for its key": strings.ReplaceAll(out, one, "")})
	tellsNothing(t, w.everything(t, sink))
	sink.terminate(t)
	tellsNothing(t, map[string]string{"the log": sink.out.String()})

	// What a sink has freed may still be in its memory: it has to be another one, which the report says.
	if !slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, "restart them") }) {
		t.Errorf("notes: got %q, want one that a restart clears the memory", r.Notes)
	}
	sink = w.run(head + deadLetters + keeping)
	w.until("a new process is ready", func() bool { return get(t, sink.admin(w), "/readyz") == "ok\n" })
	if got := sink.remembers(t, one); got > 0 {
		t.Errorf("the memory of a new process has the customer %d times", got)
	}
	if got := sink.remembers(t, w.topic("customers")); got == 0 && runtime.GOOS == "linux" {
		t.Error("the memory of the process was not looked at: its topic is not there")
	}
}

// remembers is how often the text is in the memory that the process has written; 0 where the
// system does not show it.
func (p *process) remembers(t *testing.T, text string) (times int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(filepath.Join(proc, "mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Close() }()
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") {
			continue
		}
		held := make([]byte, to-from)
		n, _ := memory.ReadAt(held, int64(from)) // a mapping may have gone meanwhile
		times += bytes.Count(held[:n], []byte(text))
	}
	return times
}

// Files that were kept under a former name of the mapping, or before its batch lane was taken
// away, are found by their text and left to a person. What a process left there that has
// ended goes.
func TestForgottenCustomerIsFoundInFilesOfAFormerMapping(t *testing.T) {
	t.Parallel()
	const one = mark + "one"
	w := newWorld(t, withStrictTables)
	w.service.FailImports("customers", 1, "no such file")
	sink := w.run(head + keeping)
	w.produce(marked(one, "basic", one))
	w.until("the file that FAILED is kept", func() bool { return strings.Contains(kept(w.spooled(), ".failed"), one) })
	sink.terminate(t)
	backfill := filepath.Join(w.dir, "spool", "backfill-customers")
	if err := os.Mkdir(backfill, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		filepath.Join(w.dir, "spool", "customers-20261124T101112Z-abcdef.upsert.csv.errors"),
		filepath.Join(backfill, "customers-20261124T101112Z-abcdeg.upsert.csv"),
	} {
		if err := os.WriteFile(file, []byte("customerNumber;lastName\n"+one+";Doe\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	before, imports, _ := strings.Cut(keeping, "    imports:")
	_, after, _ := strings.Cut(imports, "  - name: orders")
	calls := strings.Replace(before, `{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}`, "{lane: immediate}", 1) + "  - name: orders" + after
	for _, c := range []struct {
		name, mapping, yaml string
	}{
		{"its mapping was renamed", "clients", strings.Replace(keeping, "name: customers", "name: clients", 1)},
		{"it has no batch lane any more", "customers", calls},
	} {
		w.write(head + c.yaml)
		r := w.forgetsOf(c.mapping, one, 1)
		if got := states(r, forget.File); got[forget.Left] != 2 || got[forget.Removable] != 1 || len(got) != 2 {
			t.Errorf("%s: got files %v of %+v, want two that are left and one that can be removed", c.name, got, r.Places)
		}
		for _, p := range r.Places {
			if p.State == forget.Left && (p.Why == "" || !strings.Contains(strings.Join(p.Do, ""), "rm "+w.dir)) {
				t.Errorf("%s: got %+v, want why it is left and what to do", c.name, p)
			}
		}
		if got := states(w.forgetsOf(c.mapping, "zz8other", 0), forget.File); len(got) != 0 {
			t.Errorf("%s: of another customer: got files %v, want none", c.name, got)
		}
	}
	r := w.forgets("--yes "+one, 1)
	if got := states(r, forget.File); got[forget.Left] != 2 || got[forget.Removed] != 1 {
		t.Errorf("with --yes: got files %v of %+v, want two left and one removed", got, r.Places)
	}
	for _, p := range r.Places {
		for _, do := range p.Do {
			if name, is := strings.CutPrefix(do, "look at it, then rm "); is {
				if err := os.Remove(name); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if got := states(w.forgets("--yes "+one, 0), forget.File); len(got) != 0 {
		t.Errorf("once that was done: got files %v, want none", got)
	}

	// A ZIP on its way when its process was killed has no directory: nobody knows what is in it.
	w.write(head + keeping)
	if err := os.WriteFile(filepath.Join(w.dir, "spool", "customers-20261124T101112Z-abcdeh.upsert.csv.zip.part"), []byte("PK\x03\x04"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := states(w.forgets(one, 1), forget.File); got[forget.Removable] != 1 {
		t.Errorf("a file that cannot be read: got files %v, want one that can be removed", got)
	}
}

// A mapping has left a bundle that others still have. What it has in a kept ZIP of the bundle
// is found, and left to a person; what others have under the same key is theirs.
func TestForgottenCustomerIsFoundInAFileOfAFormerBundle(t *testing.T) {
	t.Parallel()
	const one = mark + "one"
	w := newWorld(t, nil)
	orders, customers, _ := strings.Cut(strings.ReplaceAll(crmBundle, "    after: [customers]\n", ""), "  - name: customers")
	refunds := strings.NewReplacer("mappings:\n", "", "name: orders", "name: refunds", "customTable: orders", "customTable: refunds", "shop-orders-", "shop-refunds-").Replace(orders)
	customers = strings.NewReplacer("    bundle: crm\n", "", `"201"`, `"101"`).Replace(customers)
	yaml := orders + refunds + "  - name: customers" + customers
	w.write(head + deadLetters + yaml)
	if err := os.MkdirAll(filepath.Join(w.dir, "spool"), 0o700); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	packed := zip.NewWriter(&file)
	for name, rows := range map[string]string{
		"customers.csv":            "customerNumber,emailAddress,lastName,seq,S_tier\n" + one + ",a@example.com,Doe,1,gold\nzz8other,,Roe,1,\n",
		"shop-orders-20261124.csv": "businessKey,seq,status\n" + one + ",1,PAID\no1,2,PAID\no2,3," + one + "\n",
	} {
		entry, err := packed.Create(name)
		if err == nil {
			_, err = entry.Write([]byte(rows))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(w.dir, "spool", "crm-20261124T101112Z-abcdef.upsert.csv.zip.failed")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{one, "--yes " + one} {
		r := w.forgets(words, 1)
		if got := states(r, forget.File); got[forget.Left] != 1 || len(got) != 1 {
			t.Fatalf("%s: got files %v of %+v, want one that is left", words, got, r.Places)
		}
		for _, p := range r.Places {
			if p.Kind == forget.File && (p.Holds != "1 row" || !strings.Contains(p.Why, "crm") || !slices.Equal(p.Do, []string{"look at it, then rm " + name})) {
				t.Errorf("%s: got %+v, want one row, the bundle's name and what to do", words, p)
			}
		}
	}
	if got := states(w.forgets("o1", 0), forget.File); len(got) != 0 {
		t.Errorf("o1 of customers: got files %v, want none: it is the key of another mapping's row", got)
	}
	if got := states(w.forgetsOf("orders", "o1", 1), forget.File); got[forget.Removable] != 1 || len(got) != 1 {
		t.Errorf("of a mapping that is in the bundle: got files %v, want one that can be removed", got)
	}
}

// On a topic that is compacted only, a tombstone for the letter's key takes it away.
func TestForgottenLettersOfACompactedTopicAreTombstoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withStrictTables)
	compact := "compact"
	_, err := w.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &compact}}, w.topic("dlq"))
	if err != nil {
		t.Fatal(err)
	}
	sink := w.run(head + deadLetters + mappings)
	w.produce(marked("zz8other", "gold", "zz8other is far too long a name"), marked(mark+"one", "gold", mark+"one is far too long a name"))
	w.settled()
	w.until("two dead letters", func() bool { return len(w.dead()) == 2 })

	r := w.forgets("--yes "+mark+"one", 1)
	if got := states(r, forget.Letter); got[forget.Goes] != 1 || len(r.Failed) > 0 {
		t.Errorf("got %v of %+v, want a letter that goes with compaction", got, r)
	}
	last := w.remaining()[2]
	if string(last.Key) != mark+"one" || last.Value != nil {
		t.Errorf("the newest record: got key %s and value %q, want a tombstone", last.Key, last.Value)
	}
	if r = w.forgets("--yes "+mark+"one", 1); len(w.remaining()) != 3 {
		t.Errorf("again: got %d records, want no further tombstone; %+v", len(w.remaining()), r.Places)
	}
	sink.terminate(t)
}

// The mapping took the records when they became dead letters, and does not any more. Of one whose
// key cannot be read it is not decided whose it is.
func TestForgottenLettersOfRecordsThatTheMappingNoLongerTakes(t *testing.T) {
	t.Parallel()
	const one, two, three = mark + "one", mark + "two", mark + "three"
	w := newWorld(t, withStrictTables)
	sink := w.run(head + deadLetters + mappings)
	keyless := event("customers", "", fmt.Sprintf(`{"op":"upsert","attributes":{"emailAddress":%q},"segments":{"tier":"gold"}}`, two))
	keyless.Key = nil
	w.produce(marked(one, "gold", one+" is far too long a name"))
	w.until("its dead letter, the first", func() bool { return len(w.dead()) == 1 })
	w.produce(marked(three, "gold", three+" is far too long a name of "+two), keyless)
	w.settled()
	w.until("three dead letters", func() bool { return len(w.dead()) == 3 })
	sink.terminate(t)

	w.write(head + deadLetters + strings.Replace(mappings, "    routes: [{when:", "    when: attributes.seq == 7\n    routes: [{when:", 1))
	if r := w.forgets("--yes "+two, 1); states(r, forget.Letter)[forget.Left] != 1 || r.Left != 1 {
		t.Errorf("a record whose key cannot be read: got %d left of %+v, want it alone", r.Left, r.Places)
	}
	if r := w.forgets("--yes "+one, 0); states(r, forget.Letter)[forget.Removed] != 1 || len(w.remaining()) != 2 {
		t.Errorf("got %d left of %+v, want its letter removed", r.Left, r.Places)
	}
	if out, code := w.execute("dlq list"); code != 0 || strings.Count(out, "  open  ") != 2 {
		t.Errorf("open letters: got exit code %d and\n%s\nwant the others'", code, out)
	}
}
