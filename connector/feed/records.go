package feed

import (
	"context"
	"encoding/json"
	"net/http"
)

// Record is the body of operations 4 and 5 and the answer of 6, which adds the
// properties id, creationMoment and updateMoment.
type Record struct {
	BusinessKey string     `json:"businessKey,omitempty"`
	Properties  []Property `json:"properties"`
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
func (r RecordRef) BusinessKey() string {
	v, err := parse(r.got.body)
	if err != nil {
		return ""
	}
	object, _ := v.(map[string]any)
	return scalar(member(object, "businessKey"))
}

// UpsertRecord creates a record or, if allowUpdate, updates the one of the same
// business key (operation 4). body is a Record as JSON and is not to be changed
// any more, like that of UpsertProfile. Without allowUpdate an existing key is
// a Conflict.
func (c *Client) UpsertRecord(ctx context.Context, table string, body []byte, allowUpdate bool) (RecordRef, error) {
	query := "allowUpdate=false"
	if allowUpdate {
		query = "allowUpdate=true"
	}
	got, err := c.send(ctx, &call{
		op: OpUpsertRecord, method: http.MethodPost, target: table, body: body, query: query,
	}, c.records+"/customTable/", table, "/record")
	return RecordRef{got}, err
}

// UpdateRecord changes the properties that body names (operation 5). It never
// creates: NotFound if no record has that key. The shape of its body is not
// shown; that of operation 4 is meant to be sent.
func (c *Client) UpdateRecord(ctx context.Context, table, key string, body []byte) (RecordRef, error) {
	got, err := c.send(ctx, &call{op: OpUpdateRecord, method: http.MethodPut, target: table, body: body},
		c.records+"/customTable/", table, "/record/", key)
	return RecordRef{got}, err
}

// GetRecord reads a record (operation 6); NotFound if no record has that key.
func (c *Client) GetRecord(ctx context.Context, table, key string) (Record, error) {
	got, err := c.send(ctx, &call{op: OpGetRecord, method: http.MethodGet, target: table},
		c.records+"/customTable/", table, "/record/", key)
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(got.body, &r); err != nil {
		// Said without the cause, which may quote a value.
		return Record{}, unreadable(OpGetRecord, table, got, errNoRecord)
	}
	return r, nil
}

// DeleteRecord deletes by business key (operation 7). NotFound means that there
// was none.
func (c *Client) DeleteRecord(ctx context.Context, table, key string) error {
	_, err := c.send(ctx, &call{op: OpDeleteRecord, method: http.MethodDelete, target: table},
		c.records+"/customTable/", table, "/record/", key)
	return err
}
