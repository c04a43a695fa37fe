package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/oneshot"
	"github.com/feedsink/feedsink/connector/ops"
)

// newBroker gives the host a broker with the mapping's topic. No sink runs there.
func (d *host) newBroker() *kadm.Client {
	d.t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "crm.customers"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(cluster.Close)
	d.change("127.0.0.1:1", cluster.ListenAddrs()[0])
	d.change("admin: {webhook", `admin: {listen: "127.0.0.1:1", webhook`)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

const twoCustomers = "customerNumber,email,subscriptions#newsletter\nC1,a@example.com,true\nC2,b@example.com,false\n"

func TestImportLoadsAFileAndTellsItsEnd(t *testing.T) {
	d := newHost(t)
	d.newBroker()
	d.write("customers.csv", twoCustomers)
	code, out, failed := d.run("import --mapping customers --map email=emailAddress customers.csv -o json")
	_, out, _ = strings.Cut(out, "\n") // what is said before
	var result struct {
		Execution, Status string
		Read, Inserted    int
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || result.Status != "FINISHED" || result.Read != 2 || result.Inserted != 2 {
		t.Errorf("got code %d, %s %s, want 2 rows inserted", code, out, failed)
	}
	if row, _ := d.service.Row("customers", "C2"); row.Values["emailAddress"] != "b@example.com" {
		t.Errorf("C2: got %v, want the mapped address", row.Values)
	}
}

func TestImportSavesTheRowsInError(t *testing.T) {
	d := newHost(t)
	d.newBroker()
	d.write("customers.csv", "customerNumber,emailAddress\nC1,a@example.com\nC2,nobody\n")
	code, out, failed := d.run("import --mapping customers customers.csv")
	if code != 1 || failed != "not every row was loaded" || !strings.Contains(out, "in error     1") {
		t.Errorf("got code %d, %s %q, want 1 row in error", code, out, failed)
	}
	_, name, _ := strings.Cut(out, "output file  ")
	rows, err := os.ReadFile(strings.TrimSpace(name))
	if err != nil || !strings.Contains(string(rows), "C2") || strings.Contains(string(rows), "C1") {
		t.Errorf("%s: got %q, %v, want the row of C2 alone", name, rows, err)
	}
}

func TestImportOfWhichTheServiceReadsTooLittleFails(t *testing.T) {
	job := &ops.Prepared{Content: &oneshot.Content{Rows: 2}}
	for read, want := range map[int64]string{0: "the file has 2 rows, and the service says that it has read 0", 2: ""} {
		none := int64(0)
		err := short(job, oneshot.Result{Status: "FINISHED", Read: &read, InError: &none, Inserted: &read})
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d read: got %v, want %q", read, err, want)
		}
	}
}

func TestImportFailsWithTheServicesReason(t *testing.T) {
	d := newHost(t)
	d.newBroker()
	d.write("customers.csv", twoCustomers)
	d.service.FailImports("customers", 1, "the disk is full")
	code, out, failed := d.run("import --mapping customers --map email=emailAddress customers.csv")
	if code != 1 || failed != "the import failed: the disk is full" || !strings.Contains(out, "FAILED") {
		t.Errorf("got code %d, %s %q", code, out, failed)
	}
}

func TestImportHasTheServiceFetchARemoteFile(t *testing.T) {
	d := newHost(t)
	d.newBroker()
	folder, err := d.service.Folder(sandbox.Location{Remote: "crm"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder+"/c.csv", []byte("customerNumber,emailAddress,subscriptions#newsletter\nC7,c@example.com,true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, failed := d.run("import --mapping customers --remote crm c.csv"); code != 0 || d.service.Len("customers") != 1 {
		t.Errorf("got code %d, %s %q and %d rows, want 1", code, out, failed, d.service.Len("customers"))
	}
}

func TestImportSpendsNoSlotOnWhatCannotWork(t *testing.T) {
	d := newHost(t)
	d.newBroker()
	d.write("customers.csv", twoCustomers)
	d.write("uneven.csv", "customerNumber\nC1,2\n")
	d.write("open.csv", "customerNumber,emailAddress\nC1,\"a@example.com\nC2,b@example.com\n")
	d.write("none.csv", "customerNumber\n")
	d.write("nokey.csv", "emailAddress\na@example.com\n")
	for line, want := range map[string]string{
		"import --mapping customers customers.csv":                               "customers.csv: email: not among the columns of mapping customers for upsert",
		"import --mapping customers --map mail=emailAddress customers.csv":       `has no header "mail"`,
		"import --mapping customers --remote crm --map email=emailAddress c.csv": "--map: not with --remote",
		"import --mapping customers --delete-remote customers.csv":               "--delete-remote: only with --remote",
		"import --mapping customers uneven.csv":                                  "line 2: wrong number of fields, which fails the whole file",
		"import --mapping customers open.csv":                                    "line 2: the value of column 2 is enclosed and never closed",
		"import --mapping customers none.csv":                                    "has no row below its headers",
		"import --mapping customers --map email=customerNumber customers.csv":    `the headers "customerNumber" and "email" both stand for customerNumber`,
		"import --mapping customers nokey.csv":                                   "has no column for the key customerNumber",
		"import --mapping customers missing.csv":                                 "missing.csv: no such file",
		"import --mapping orders customers.csv":                                  "mapping orders: is not in the configuration",
		"import --mapping customers --op replace customers.csv":                  "--op: must be",
		"import customers.csv":                                                   "--mapping: name the mapping",
		"import --mapping customers":                                             "accepts 1 arg(s)",
	} {
		if code, _, failed := d.run(line); code != 2 || !strings.Contains(failed, want) {
			t.Errorf("%s: got code %d, %q, want 2 and %q", line, code, failed, want)
		}
	}
	if calls := d.service.CallCount(8); calls != 0 {
		t.Errorf("operation 8: got %d calls, want none", calls)
	}
}

func TestImportKeepsToTheDaysSlotsUnlessForced(t *testing.T) {
	d := newHost(t)
	kafka := d.newBroker()
	d.write("customers.csv", "customerNumber\nC1\n")
	if _, err := kafka.CreateTopic(t.Context(), 1, 1, nil, "elsewhere"); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Hour)
	offsets := kadm.Offsets{}
	// Of the latter the first five are a copy: it was the mapping's first topic before.
	for topic, used := range map[string][]int64{"crm.customers": slices.Repeat([]int64{now.Unix()}, 5), "elsewhere": append(slices.Repeat([]int64{now.Unix()}, 5), slices.Repeat([]int64{now.Unix() + 1}, 7)...)} {
		ledger := ack.Ledger{Slots: []ack.Slots{{Table: "customers", Used: used}}}
		metadata, _, err := ledger.Encode(0, ack.MetadataLimit)
		if err != nil {
			t.Fatal(err)
		}
		offsets.Add(kadm.Offset{Topic: topic, At: 0, LeaderEpoch: -1, Metadata: metadata})
	}
	if _, err := kafka.CommitOffsets(t.Context(), "feedsink-batch", offsets); err != nil {
		t.Fatal(err)
	}
	code, _, failed := d.run("import --mapping customers customers.csv")
	if want := "mapping customers: no import is left today; nothing was sent, --force sends all the same"; code != 1 || failed != want || d.service.CallCount(8) != 0 {
		t.Errorf("got code %d, %q, want 1 and %q", code, failed, want)
	}
	if code, _, failed := d.run("import --mapping customers --force customers.csv"); code != 0 || d.service.Len("customers") != 1 {
		t.Errorf("forced: got code %d, %q and %d rows, want 0 and 1 row", code, failed, d.service.Len("customers"))
	}
}

func TestImportTakesASlotOfTheRunningSink(t *testing.T) {
	mux, sink := http.NewServeMux(), &imports{}
	admin.Imports(sink)(mux)
	server := sinkServer(mux)
	defer server.Close()
	d := newHost(t)
	d.write("customers.csv", "customerNumber\nC1\n")
	if code, _, failed := d.run("import --mapping customers customers.csv --server " + server.URL); code != 0 || len(sink.taken) != 1 || d.service.Len("customers") != 1 {
		t.Errorf("got code %d, %q, %q taken, want one of customers and its row", code, failed, sink.taken)
	}
	d.change("name: customers", "name: consents")
	if code, _, failed := d.run("import --mapping consents customers.csv --server " + server.URL); code != 1 || !strings.Contains(failed, "no import is left today; nothing was sent") || d.service.CallCount(8) != 1 {
		t.Errorf("none left: got code %d, %q and %d calls, want 1 and the one from before", code, failed, d.service.CallCount(8))
	}
}

// Nobody has to name the sink of this machine: one that is not asked does not count the import.
func TestImportIsCountedByTheSinkOfThisMachine(t *testing.T) {
	mux, sink := http.NewServeMux(), &imports{}
	admin.Imports(sink)(mux)
	server := sinkServer(mux)
	defer server.Close()
	d := newHost(t)
	d.newBroker()
	d.change("127.0.0.1:1", strings.TrimPrefix(server.URL, "http://"))
	d.write("customers.csv", "customerNumber\nC1\n")
	if code, said, failed := d.run("import --mapping customers customers.csv"); code != 0 || len(sink.taken) != 1 || strings.Contains(said, "counted nowhere") {
		t.Errorf("got code %d, %s %q, %q taken, want one of customers", code, said, failed, sink.taken)
	}
	d.change("name: customers", "name: consents")
	if code, _, failed := d.run("import --mapping consents customers.csv"); code != 1 || !strings.Contains(failed, "no import is left today; nothing was sent") || d.service.CallCount(8) != 1 {
		t.Errorf("none left: got code %d, %q and %d calls, want 1 and the one from before", code, failed, d.service.CallCount(8))
	}
}

func TestImportIsRefusedByAnyAnswerThatCountsNothing(t *testing.T) {
	for _, status := range []int{401, 404, 409, 500, 503} {
		server := sinkServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not so", status) }))
		d := newHost(t)
		d.newBroker()
		d.change("127.0.0.1:1", strings.TrimPrefix(server.URL, "http://"))
		d.write("customers.csv", "customerNumber\nC1\n")
		if code, _, failed := d.run("import --mapping customers customers.csv"); code != 1 || failed != "not so; nothing was sent, --force sends all the same" || d.service.CallCount(8) != 0 {
			t.Errorf("%d: got code %d, %q and %d calls, want 1 and none", status, code, failed, d.service.CallCount(8))
		}
		server.Close()
	}
}

func TestImportThatNobodyCountsSaysSo(t *testing.T) {
	d := newHost(t)
	d.newBroker()
	d.write("customers.csv", "customerNumber\nC1\n")
	const want = "this import is counted nowhere, for no sink answers at http://127.0.0.1:1: one that runs elsewhere, or is started today, does not know of it"
	if code, said, failed := d.run("import --mapping customers customers.csv"); code != 0 || !strings.Contains(said, want) {
		t.Errorf("got code %d, %s %q, want 0 and %s", code, said, failed, want)
	}
	if code, said, failed := d.run("import --mapping customers --server http://127.0.0.1:1 customers.csv"); code != 1 || !strings.Contains(failed, "no sink answers at http://127.0.0.1:1") || strings.Contains(said, "nowhere") {
		t.Errorf("--server: got code %d, %s %q, want 1, and nothing sent", code, said, failed)
	}
}

// The sink keeps no count of the imports of a mapping that makes calls alone.
func TestImportOfAMappingOfCallsIsCountedNowhere(t *testing.T) {
	d := newHost(t)
	d.newBroker()
	d.change("mappings:\n", "mappings:\n  - {name: orders, topics: [shop.orders], customTable: orders, key: businessKey, fields: [{from: id, to: businessKey}, {from: total, to: total}], routes: [{lane: immediate}]}\n")
	d.write("orders.csv", "businessKey,total\nO1,5\n")
	const want = "this import is counted nowhere: no route of mapping orders leads to the batch lane"
	if code, said, failed := d.run("import --mapping orders orders.csv"); code != 0 || !strings.Contains(said, want) {
		t.Errorf("got code %d, %s %q, want 0 and %s", code, said, failed, want)
	}
}

// A cell that a file of patches leaves empty says nothing, in a file by hand too.
func TestImportOfPatchesKeepsWhatAFileLeavesEmpty(t *testing.T) {
	d := newHost(t)
	d.newBroker()
	d.change(`{name: emailAddress, "null": immediate}`, "{name: emailAddress, absent: immediate}")
	d.write("customers.csv", "customerNumber,emailAddress,subscriptions#newsletter\nC1,a@example.com,true\n")
	d.write("patches.csv", "customerNumber,emailAddress,subscriptions#newsletter\nC1,,false\n")
	for _, line := range []string{"import --mapping customers customers.csv", "import --mapping customers --op patch patches.csv"} {
		if code, out, failed := d.run(line); code != 0 {
			t.Fatalf("%s: got code %d, %s %s", line, code, out, failed)
		}
	}
	if row, _ := d.service.Row("customers", "C1"); row.Text("emailAddress") != "a@example.com" || row.Text("subscriptions#newsletter") != "false" {
		t.Errorf("C1: got %v, want its e-mail address as it was", row.Values)
	}
}
