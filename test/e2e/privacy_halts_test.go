package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// halting sends files of both tables as they are, so that a service which repeats
// what it was sent repeats their cells. Without a dead-letter topic, whatever
// cannot be applied halts.
const halting = `
mappings:
  - name: customers
    topics: ["${PREFIX}customers"]
    profileTable: customers
    key: customerNumber
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [customerNumber, emailAddress, lastName, seq, S_tier]
      csv: {compression: NONE}
      roll: {rows: 500, bytes: 1MiB, age: 500ms}
      slotsPerDay: 1000
      retryFailed: 1
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    routes: [{when: 'businessKey contains "file"', lane: batch}, {lane: immediate}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      columns: [businessKey, status]
      csv: {compression: NONE}
      roll: {rows: 500, bytes: 1MiB, age: 500ms}
      slotsPerDay: 1000
`

// failedWith is what the service says of a file that it refuses as a whole.
const failedWith = "row 1: wrong number of columns in lastName: " + mark + "failed is the 6th of 5"

// everything is what a sink shows without being asked for values, by where.
func (w *world) everything(t *testing.T, sink *process) map[string]string {
	t.Helper()
	address := sink.admin(w)
	shown := map[string]string{"the log": sink.out.String()}
	for _, path := range []string{"/", "/status", "/metrics", "/imports", "/imports/customers", "/imports/orders", "/readyz"} {
		shown[path] = get(t, address, path)
	}
	for _, words := range []string{"list", "list -o json", "show --mapping customers", "show --mapping orders -o json"} {
		shown["imports "+words], _ = w.ask("imports " + words + " --server http://" + address)
	}
	return shown
}

// ask runs a command that asks a sink.
func (w *world) ask(words string) (output string, code int) {
	w.t.Helper()
	return execute(w.t, strings.Fields(words)...)
}

// tellsNothing fails for each line with a customer's value.
func tellsNothing(t *testing.T, shown map[string]string) {
	t.Helper()
	for name, text := range shown {
		if text == "" {
			t.Errorf("%s is empty", name)
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, mark) {
				t.Errorf("%s tells a customer's value: %s", name, line)
			}
		}
	}
}

// A file that FAILED, a trigger that was refused, a row in error and a record that
// cannot be read each halt something, and each time the service quotes values.
func TestHaltsTellNoCustomerValueUnlessAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withStrictTables)
	w.service.FailImports("customers", 1, failedWith)
	w.service.Inject(
		sandbox.Fault{Match: sandbox.Match{Op: 10, Table: "orders", Nth: 1}, Answer: sandbox.Status(503)},
		sandbox.Fault{Match: sandbox.Match{Op: 10, Table: "orders"}, Answer: sandbox.Status(400)},
		sandbox.Fault{Match: sandbox.Match{Op: 11, Nth: 1}, Answer: sandbox.Status(500)},
		sandbox.Fault{Match: sandbox.Match{Op: 12, Nth: 1}, Answer: sandbox.Status(500)},
	)
	if err := w.service.RejectRows(sandbox.Rejection{Column: "lastName", Match: "^Nemo", Reason: mark + "reason: nobody of this name"}); err != nil {
		t.Fatal(err)
	}
	w.between(talkative)
	sink := w.run(head + halting)
	address := sink.admin(w)
	server := " --server http://" + address
	for _, r := range leaky() {
		if strings.HasSuffix(string(r.Key), "row") || strings.HasSuffix(string(r.Key), "rule") || strings.HasSuffix(string(r.Key), "json") {
			w.produce(r)
		}
	}
	w.produce(event("orders", mark+"keyfile", fmt.Sprintf(`{"op":"upsert","businessKey":"%sfile","properties":{"status":"%[1]sstatus"}}`, mark)))
	halted := func(mapping, words string) {
		t.Helper()
		w.until(mapping+" is halted: "+words, func() bool {
			out, _ := w.ask("imports show --mapping " + mapping + server)
			return strings.Contains(out, words)
		})
	}
	halted("customers", "FAILED")
	halted("orders", "400 Bad Request")
	w.until("the record that cannot be read halts its partition", func() bool { return strings.Contains(get(t, address, "/status"), "offset 0: decode") })
	tellsNothing(t, w.everything(t, sink))

	for _, command := range []struct{ words, want string }{
		{"imports show --mapping customers", "row 1: … (it names lastName)"},
		{"imports show --mapping customers", "--show-reason"},
		{"imports show --mapping customers --show-reason", failedWith},
		{"imports show --mapping customers --show-reason -o json", failedWith},
		{"imports show --mapping orders --show-reason", mark + "status"}, // the CSV file that it was sent
	} {
		if out, code := w.ask(command.words + server); code != 0 || !strings.Contains(out, command.want) {
			t.Errorf("%s: got exit code %d and\n%s\nwant %q in it", command.words, code, out, command.want)
		}
	}

	// Another process has not heard what the service said, and asks for it.
	sink.terminate(t)
	tellsNothing(t, map[string]string{"the log": sink.out.String()})
	sink = w.run(head + halting)
	server = " --server http://" + sink.admin(w)
	halted("customers", "FAILED under a former owner")
	tellsNothing(t, w.everything(t, sink))
	if out, code := w.ask("imports show --mapping customers --show-reason" + server); code != 0 || !strings.Contains(out, failedWith) {
		t.Errorf("after a restart: got exit code %d and\n%s\nwant the service's words", code, out)
	}

	if out, code := w.ask("imports release --mapping customers" + server); code != 0 {
		t.Fatalf("release: got exit code %d: %s", code, out)
	}
	w.until("rows in error halt their partition", func() bool { return strings.Contains(get(t, sink.admin(w), "/status"), "its row was in error") })
	tellsNothing(t, w.everything(t, sink))
	sink.terminate(t)
	tellsNothing(t, map[string]string{"the log": sink.out.String()})
}
