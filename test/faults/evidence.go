package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// rowsOf asks the service which rows an execution loaded (operation 12).
func (j *judge) rowsOf(ctx context.Context, e sandbox.Execution) (rows []version, err error) {
	if e.Status != sandbox.Finished {
		return nil, fmt.Errorf("it ended %s: %s", e.Status, e.Error)
	}
	for _, l := range e.Loads { // a create that is repeated finds its row, a patch may find none
		if l.Results.InError > 0 && l.Mode != sandbox.CreateOnly && l.Mode != sandbox.UpdateOnly {
			return nil, fmt.Errorf("%d rows of table %s are in error", l.Results.InError, l.Table)
		}
	}
	token, err := j.ask(ctx, "/auth/token", apiKey)
	if err != nil {
		return nil, err
	}
	var grant struct{ AccessToken string }
	if err := json.Unmarshal(token, &grant); err != nil {
		return nil, err
	}
	body, err := j.ask(ctx, "/mass-imports/v5/entities/"+entity+"/etl-executions/"+e.ID+"/output-files", "Bearer "+grant.AccessToken)
	if err != nil {
		return nil, err
	}
	files, err := unzip(body)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		of, err := j.rowsIn(e, file)
		if err != nil {
			return nil, err
		}
		rows = append(rows, of...)
	}
	return rows, nil
}

// rowsIn reads one output file: the rows of a result file, none of a file of rows
// in error.
func (j *judge) rowsIn(e sandbox.Execution, file []byte) (rows []version, err error) {
	lines, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil || !slices.Contains(lines[0], "result") {
		return nil, err
	}
	of, key, seq := e.Loads[0], slices.Index(lines[0], "customerNumber"), slices.Index(lines[0], "seq")
	if key < 0 {
		of, key = e.Loads[len(e.Loads)-1], slices.Index(lines[0], "businessKey") // last of a bundle
	}
	for _, cells := range lines[1:] {
		v := version{name: name{of.Table, cells[key]}}
		v.seq = j.w.load.generator.deletes[v.name]
		if of.Mode != sandbox.DeleteRows {
			if v.seq, err = strconv.Atoi(cells[seq]); err != nil {
				return nil, err
			}
		}
		rows = append(rows, v)
	}
	return rows, nil
}

// unzip returns the files of a ZIP, or what is none as it is.
func unzip(body []byte) (files [][]byte, err error) {
	if !bytes.HasPrefix(body, []byte("PK")) {
		return [][]byte{body}, nil
	}
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil, err
	}
	for _, entry := range z.File {
		file, err := fs.ReadFile(z, entry.Name)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func (j *judge) ask(ctx context.Context, path, authorization string) ([]byte, error) {
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	request.Header.Set("Authorization", authorization)
	answer := httptest.NewRecorder()
	j.w.service.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %d: %s", path, answer.Code, answer.Body)
	}
	return answer.Body.Bytes(), nil
}

// slots counts the imports that the service accepted today and the ledger
// doesn't have. Each table has one owner who knows.
func (j *judge) slots(ctx context.Context) (over int, err error) {
	left := map[string]int{}
	err = j.w.until(ctx, "every table's owner says how many slots are left", func() (bool, error) {
		for _, m := range j.w.members {
			its, err := m.slotsLeft(ctx)
			if err != nil {
				return false, err
			}
			maps.Copy(left, its)
		}
		return !slices.ContainsFunc(tables, func(t table) bool {
			_, known := left[t.name]
			return t.files && !known
		}), nil
	})
	if err != nil {
		return 0, err
	}
	for table, n := range left {
		over += j.uncounted(table, j.w.service.SlotsUsed(table, j.w.clock.now()), slotsPerDay-n)
	}
	return over, nil
}

// readLetters reads the dead letters since the last look.
func (j *judge) readLetters(ctx context.Context) (numbers []string, err error) {
	letters, err := j.w.lettersFrom(ctx, deadLetters, j.dead)
	j.dead += int64(len(letters))
	for _, r := range letters {
		number, ok := header(r, numberHeader)
		if !ok {
			continue
		}
		numbers = append(numbers, number)
		topic, _ := header(r, "__connect.errors.topic")
		partition, _ := header(r, "__connect.errors.partition")
		offset, _ := header(r, "__connect.errors.offset")
		lane, _ := header(r, "feedsink.lane")
		reason, _ := header(r, "__connect.errors.exception.message")
		j.told[number] = letter{name{topic, string(r.Key)}, fmt.Sprintf("%s[%s] offset %s, key %s, lane %s: %s", topic, partition, offset, r.Key, lane, reason)}
	}
	return numbers, err
}

// lettersFrom reads a dead-letter topic, of one partition, from an offset on.
func (w *world) lettersFrom(ctx context.Context, topic string, from int64) (letters []*kgo.Record, err error) {
	ends, err := w.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup(topic, 0)
	if end.Offset == from {
		return nil, nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Addr()), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for from+int64(len(letters)) < end.Offset {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return letters, fmt.Errorf("read dead letters: %w", err)
		}
		letters = append(letters, fetches.Records()...)
	}
	return letters, nil
}

func header(r *kgo.Record, key string) (string, bool) {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value), true
		}
	}
	return "", false
}
