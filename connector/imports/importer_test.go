package imports

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/schemas"
)

func TestImporterCarriesAFileThroughItsExecution(t *testing.T) {
	s, client := startService(t)
	i := Importer{Client: client, Known: &calls.Service{}, Leased: func() bool { return true }}
	const csv = "customerNumber,name\nC1,Ada\n,nobody\n"
	opened := 0
	open := func() (io.ReadCloser, int64, error) {
		opened++
		return io.NopCloser(strings.NewReader(csv)), int64(len(csv)), nil
	}
	s.Hold()
	id, err := i.Trigger(t.Context(), "101", "customers-1.upsert.csv", open)
	if err != nil || id == "" || opened != 1 {
		t.Fatalf("Trigger: got %q, %v, file opened %d times, want an execution and one reading", id, err, opened)
	}
	if got, err := i.Results(t.Context(), id); err != nil || got != (contract.Results{Status: contract.InProgress}) {
		t.Errorf("while it runs: got %+v, %v, want IN_PROGRESS and counters of 0, not of -1", got, err)
	}
	if err := s.Finish(id); err != nil {
		t.Fatal(err)
	}
	want := contract.Results{Status: contract.Finished, Read: 2, InError: 1, Inserted: 1}
	if got, err := i.Results(t.Context(), id); err != nil || got != want {
		t.Errorf("when it has ended: got %+v, %v, want %+v", got, err, want)
	}
	var errorFile bytes.Buffer
	if err := i.OutputFiles(t.Context(), id, &errorFile); err != nil || !strings.Contains(errorFile.String(), "nobody") {
		t.Errorf("error file: got %q, %v, want the row in error", errorFile.String(), err)
	}
}

func TestImporterPassesTheReasonOfAFailure(t *testing.T) {
	s, client := startService(t)
	i := Importer{Client: client, Known: &calls.Service{}, Leased: func() bool { return true }}
	s.FailImports("customers", 1, "duplicate headers")
	id, err := i.Trigger(t.Context(), "101", "customers-1.upsert.csv", func() (io.ReadCloser, int64, error) {
		return io.NopCloser(strings.NewReader("customerNumber\n")), 15, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(id); err != nil {
		t.Fatal(err)
	}
	if got, err := i.Results(t.Context(), id); err != nil || got.Status != contract.Failed || got.Reason != "duplicate headers" || !got.SameAgain {
		t.Errorf("got %+v, %v, want FAILED with the service's reason, and that it is the file's own", got, err)
	}
	var f contract.Failure
	if _, err := i.Results(t.Context(), "no-such-execution"); !errors.As(err, &f) {
		t.Errorf("an unknown execution: got %v, want an error that the batcher can ask", err)
	}
}

func TestLedgerEntrySaysEverythingThatANewOwnerNeeds(t *testing.T) {
	got := entry(contract.Import{
		Mapping: "m", Table: schemas.Table{Name: "customers"}, Fingerprint: 7, Part: 2, Parts: 3, Mode: "DELETE",
		ETL: "102", File: "f.csv.gz", Rows: 9, Bytes: 99, Attempt: 4, Execution: "12",
	}, ack.Running)
	want := ack.Import{
		State: ack.Running, Table: "profile/customers", Mode: "DELETE", File: "f.csv.gz", Execution: "12",
		Fingerprint: 7, Part: 2, Parts: 3, Attempt: 4,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestImporterSendsNothingWithoutALease(t *testing.T) {
	s, client := startService(t)
	i := Importer{Client: client, Known: &calls.Service{}, Leased: func() bool { return false }}
	_, err := i.Trigger(t.Context(), "101", "customers-1.upsert.csv", func() (io.ReadCloser, int64, error) {
		t.Error("the file was opened")
		return io.NopCloser(strings.NewReader("")), 0, nil
	})
	failure, ok := errors.AsType[contract.Failure](err)
	if !ok || !failure.Transient() || failure.Unknown() {
		t.Errorf("got %v, want a failure that passes and says that nothing was sent", err)
	}
	if got := len(s.Executions()); got != 0 {
		t.Errorf("got %d executions, want none", got)
	}
}
