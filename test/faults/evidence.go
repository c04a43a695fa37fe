package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
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
	if e.Status != sandbox.Finished || e.Results.InError > 0 {
		return nil, fmt.Errorf("it ended %s with %d rows in error: %s", e.Status, e.Results.InError, e.Error)
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
	lines, err := csv.NewReader(bytes.NewReader(body)).ReadAll()
	if err != nil {
		return nil, err
	}
	key, seq := slices.Index(lines[0], "customerNumber"), slices.Index(lines[0], "seq")
	for _, cells := range lines[1:] {
		v := version{name: name{e.Loads[0].Table, cells[key]}}
		v.seq = j.w.load.generator.deletes[v.name]
		if e.Loads[0].Mode != sandbox.DeleteRows {
			if v.seq, err = strconv.Atoi(cells[seq]); err != nil {
				return nil, err
			}
		}
		rows = append(rows, v)
	}
	return rows, nil
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
			return !t.custom && !known
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
		if number, ok := header(r, numberHeader); ok {
			numbers = append(numbers, number)
		}
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
