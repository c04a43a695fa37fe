package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// numberedEvent is what the service looks at of a numbered event's body.
type numberedEvent struct {
	Attributes struct {
		CustomerNumber string `json:"customerNumber"`
		Points         int64  `json:"points"`
	} `json:"attributes"`
}

// rows is what the service remembers of numbered events.
type rows struct {
	mu     sync.Mutex
	Points map[string]int64 `json:"points"` // by key: of the last write
	// Backwards is how many writes came after a newer one of their key.
	Backwards int64 `json:"backwards"`
	// Answers are the moments of the answers in nanoseconds, by the event's number;
	// 0 for events that were merged into a later one.
	Answers []int64 `json:"answers"`
}

func (r *rows) write(e *numberedEvent) {
	now := time.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	key, number := e.Attributes.CustomerNumber, e.Attributes.Points
	if number < r.Points[key] {
		r.Backwards++
	}
	r.Points[key] = number
	for int64(len(r.Answers)) <= number {
		r.Answers = append(r.Answers, 0)
	}
	r.Answers[number] = now
}

func (r *rows) encode(to io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.NewEncoder(to).Encode(r)
}

// rowsOf asks a service what it remembers.
func rowsOf(ctx context.Context, service string) (*rows, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service+"/bench/rows", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("rows of the service: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	r := &rows{}
	if err := json.NewDecoder(response.Body).Decode(r); err != nil {
		return nil, fmt.Errorf("rows of the service: %s: %w", response.Status, err)
	}
	return r, nil
}
