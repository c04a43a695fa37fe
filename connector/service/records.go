package service

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Record is the body of operations 4 and 5 and the answer of 6, which adds the
// properties id, creationMoment and updateMoment.
type Record struct {
	BusinessKey string     `json:"businessKey,omitempty"`
	Properties  []Property `json:"properties"`
}

// Of a property that every retrieved record carries besides those written.
const (
	propertyID      = "id"
	propertyCreated = "creationMoment"
	propertyUpdated = "updateMoment"
)

// Value is the JSON of a property, nil if the record has none of that name.
func (r Record) Value(name string) json.RawMessage {
	for _, p := range r.Properties {
		if p.Name == name {
			return p.Value
		}
	}
	return nil
}

// ID is the number that the service gave a retrieved record, "" if it does not
// tell.
func (r Record) ID() string {
	v, err := parse(r.Value(propertyID))
	if err != nil {
		return ""
	}
	return scalar(v)
}

// Created and Updated are the moments of a retrieved record, zero if it does not
// tell them.
func (r Record) Created() time.Time { return r.timestamp(propertyCreated) }

// Updated is the moment of the last change; see Created.
func (r Record) Updated() time.Time { return r.timestamp(propertyUpdated) }

// timestamp reads an ISO 8601 timestamp with Z or an offset, which RFC 3339 allows
// with and ISO 8601 without a colon.
func (r Record) timestamp(name string) time.Time {
	v, _ := parse(r.Value(name)) // nil is no text
	text, _ := v.(string)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

// Property is one field of a record; the value is JSON as it is sent, a number
// or a string.
type Property struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// RecordRef is the answer of operations 4 and 5, read only when asked.
type RecordRef struct{ got answer }

// BusinessKey is the record's key, as the service chose it if the body had
// none; "" if the answer does not tell.
func (r RecordRef) BusinessKey() string { return businessKeyOf(r.got.body) }

// UpsertRecord creates a record or, if allowUpdate, updates the one of the same
// business key (operation 4). body is a Record. Without allowUpdate an existing
// key is a Conflict.
func (c *Client) UpsertRecord(ctx context.Context, table string, body Body, allowUpdate bool) (RecordRef, error) {
	query := "allowUpdate=false"
	if allowUpdate {
		query = "allowUpdate=true"
	}
	got, err := c.sendFixed(ctx, &call{
		op: OpUpsertRecord, method: http.MethodPost, target: table, body: body, query: query,
	}, c.records, table, "/record")
	return RecordRef{got}, err
}

// UpdateRecord changes the properties that body names (operation 5). It never
// creates: NotFound if no record has that key. The shape of its body is not
// shown; that of operation 4 is meant to be sent.
func (c *Client) UpdateRecord(ctx context.Context, table, key string, body Body) (RecordRef, error) {
	got, err := c.send(ctx, &call{op: OpUpdateRecord, method: http.MethodPut, target: table, body: body},
		c.records, table, "/record/", key)
	return RecordRef{got}, err
}

// GetRecord reads a record (operation 6); NotFound if no record has that key,
// whether the service says so by its status or by an empty answer.
func (c *Client) GetRecord(ctx context.Context, table, key string) (Record, error) {
	got, err := c.send(ctx, &call{op: OpGetRecord, method: http.MethodGet, target: table},
		c.records, table, "/record/", key)
	if err != nil {
		return Record{}, err
	}
	r, found, err := recordAnswer(got.body)
	if err != nil {
		// Said without the answer, which may quote a value.
		return Record{}, unreadable(OpGetRecord, table, got, errNoRecord)
	}
	if !found {
		return Record{}, &Error{
			op: OpGetRecord, kind: NotFound, status: got.status, target: table, text: "the answer is empty: there is no such record",
		}
	}
	return r, nil
}

// DeleteRecord deletes by business key (operation 7). NotFound means that there
// was none.
func (c *Client) DeleteRecord(ctx context.Context, table, key string) error {
	_, err := c.send(ctx, &call{op: OpDeleteRecord, method: http.MethodDelete, target: table},
		c.records, table, "/record/", key)
	return err
}
