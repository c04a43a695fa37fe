package service

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// operation is one of the interface, by its number there.
type operation uint8

// The operations. 15, the bulk import of version 4, is gone.
const (
	opUpsertProfile operation = iota + 1
	opPatchProfile
	opDeleteProfile
	opUpsertRecord
	opUpdateRecord
	opGetRecord
	opDeleteRecord
	opOneShot
	opCreateETL
	opTrigger
	opResults
	opOutputFiles
	opCreateWebhook
	opToken
)

// Roots of the paths: {entity} is the configured one, {} an id or name.
const (
	profilesPath = "/profiles/v5/entities/{entity}/profile-tables/{}/profiles"
	recordsPath  = "/custom-data/v4/entity/{entity}/customTable/{}/record"
	importsPath  = "/mass-imports/v5/entities/{entity}"
)

// interfaceHas is what there is to know of each operation. The last are the 4xx with
// which the service refuses what was sent, whatever their body is. The interface shows
// 404 and 409; it leaves open how a bad value is refused (400 or 422), what operations
// 2, 6, 11 and 12 say of something that is not there, how large a file may be (413), and
// whether 2, 5 and imports know a conflict. A 404 with a body that is no JSON is none of
// them: the interface's bodies are JSON, and whatever stands at a wrong address says 404.
// Any other 4xx is the service's only with a body of its kind, which is JSON. 401, 403,
// 408, 425 and 429 are transient for every operation.
var interfaceHas = [...]struct {
	name, method, path string
	refusals           []int
}{
	opUpsertProfile: {"create or update profile", http.MethodPost, profilesPath, []int{400, 409, 422}},
	opPatchProfile:  {"patch profile", http.MethodPatch, profilesPath + "/{}", []int{400, 404, 409, 422}},
	opDeleteProfile: {"delete profile", http.MethodDelete, profilesPath + "/{}", []int{400, 404}},
	opUpsertRecord:  {"create or update record", http.MethodPost, recordsPath, []int{400, 409, 422}},
	opUpdateRecord:  {"update record", http.MethodPut, recordsPath + "/{}", []int{400, 404, 409, 422}},
	opGetRecord:     {"get record", http.MethodGet, recordsPath + "/{}", []int{400, 404}},
	opDeleteRecord:  {"delete record", http.MethodDelete, recordsPath + "/{}", []int{400, 404}},
	opOneShot:       {"launch one-shot import", http.MethodPost, importsPath + "/etl-executions", []int{400, 409, 413, 422}},
	opCreateETL:     {"create ETL", http.MethodPost, importsPath + "/etls", []int{400, 409, 422}},
	opTrigger:       {"trigger import", http.MethodPost, importsPath + "/etls/{}/trigger-execution", []int{400, 409, 413, 422}},
	opResults:       {"get results of execution", http.MethodGet, importsPath + "/etl-executions/{}/integration-results", []int{400, 404}},
	opOutputFiles:   {"get output files of execution", http.MethodGet, importsPath + "/etl-executions/{}/output-files", []int{400, 404}},
	opCreateWebhook: {"create webhook", http.MethodPost, "/webhooks/v4/entity/{entity}/webhookSubscription", []int{400, 409, 422}},
	opToken:         {"access token", http.MethodGet, "/auth/token", nil},
}

// uploads reports whether the operation begins an import, whose file it may bring.
func (o operation) uploads() bool { return o == opOneShot || o == opTrigger }

// String is the operation in words, as errors begin with it.
func (o operation) String() string { return interfaceHas[o].name }

// reads reports whether the operation changes nothing at the service, so that
// a lost answer leaves no doubt behind.
func (o operation) reads() bool { return interfaceHas[o].method == http.MethodGet }

// Profile is the body of operations 1 and 2. Values are JSON as it is sent, so
// that no digit is lost.
type Profile struct {
	Attributes     map[string]json.RawMessage `json:"attributes,omitempty"`
	Subscriptions  map[string]bool            `json:"subscriptions,omitempty"`
	Segments       map[string]json.RawMessage `json:"segments,omitempty"` // bool, or the name of a segment
	DataCollection *DataCollection            `json:"dataCollection,omitempty"`
}

// DataCollection is the context of a consent.
type DataCollection struct {
	Date   string `json:"date,omitempty"` // ISO 8601 with Z or an offset
	Source string `json:"source,omitempty"`
	Way    string `json:"way,omitempty"`
}

// ProfileRef is the answer of operations 1 and 2. It is read only when asked:
// most callers need just the yes.
type ProfileRef struct{ got answer }

// ID is the service's id of the profile, "" if the answer does not tell.
func (r ProfileRef) ID() string { return identifier(r.got.body, r.got.header, profileNames) }

// Href is the profile's path at the service, "" if the answer does not tell.
func (r ProfileRef) Href() string {
	v, err := parse(r.got.body)
	if err != nil {
		return ""
	}
	object, _ := v.(map[string]any)
	return selfLink(object)
}

// UpsertProfile creates the profile or replaces it whole (operation 1). body is
// a Profile. A Conflict means that its unique keys match different profiles.
func (c *Client) UpsertProfile(ctx context.Context, table string, body Body) (ProfileRef, error) {
	got, err := c.sendFixed(ctx, &call{op: opUpsertProfile, target: table, body: body})
	return ProfileRef{got}, err
}

// PatchProfile changes what body mentions (operation 2); for body see
// UpsertProfile. id is the service's.
func (c *Client) PatchProfile(ctx context.Context, table, id string, body Body) (ProfileRef, error) {
	got, err := c.send(ctx, &call{op: opPatchProfile, target: table, body: body}, table, id)
	return ProfileRef{got}, err
}

// DeleteProfile deletes by the service's id (operation 3). NotFound means that
// there was none.
func (c *Client) DeleteProfile(ctx context.Context, table, id string) error {
	_, err := c.send(ctx, &call{op: opDeleteProfile, target: table}, table, id)
	return err
}

// Record is the body of operations 4 and 5 and the answer of 6, which adds the
// properties id, creationMoment and updateMoment.
type Record struct {
	BusinessKey string     `json:"businessKey,omitempty"`
	Properties  []Property `json:"properties"`
	// Ahead is by how much the service's clock was ahead of ours, or behind (negative), when it
	// was retrieved; 0: it did not say.
	Ahead time.Duration `json:"-"`
}

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
	v, err := parse(r.Value("id"))
	if err != nil {
		return ""
	}
	return scalar(v)
}

// Created is when a retrieved record was created, zero if it does not tell.
func (r Record) Created() time.Time { return r.timestamp("creationMoment") }

// Updated is when a retrieved record was last changed, zero if it does not tell.
func (r Record) Updated() time.Time { return r.timestamp("updateMoment") }

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
	got, err := c.sendFixed(ctx, &call{op: opUpsertRecord, target: table, body: body, query: query})
	return RecordRef{got}, err
}

// UpdateRecord changes the properties that body names (operation 5). It never
// creates: NotFound if no record has that key. The shape of its body is not
// shown; that of operation 4 is meant to be sent.
func (c *Client) UpdateRecord(ctx context.Context, table, key string, body Body) (RecordRef, error) {
	got, err := c.send(ctx, &call{op: opUpdateRecord, target: table, body: body}, table, key)
	return RecordRef{got}, err
}

// GetRecord reads a record (operation 6); NotFound if no record has that key,
// whether the service says so by its status or by an empty answer.
func (c *Client) GetRecord(ctx context.Context, table, key string) (Record, error) {
	got, err := c.send(ctx, &call{op: opGetRecord, target: table}, table, key)
	if err != nil {
		return Record{}, err
	}
	r, found, err := recordAnswer(got.body)
	if err != nil {
		// Said without the answer, which may quote a value.
		return Record{}, unreadable(opGetRecord, table, got, errNoRecord)
	}
	if r.BusinessKey != "" && r.BusinessKey != key {
		return Record{}, unreadable(opGetRecord, table, got, errOtherRecord)
	}
	if !found {
		return Record{}, &Error{
			op: opGetRecord, kind: NotFound, status: got.status, target: table, text: "the answer is empty: there is no such record",
		}
	}
	if at, err := http.ParseTime(got.header.Get("Date")); err == nil {
		r.Ahead = time.Until(at)
	}
	return r, nil
}

// DeleteRecord deletes by business key (operation 7). NotFound means that there
// was none.
func (c *Client) DeleteRecord(ctx context.Context, table, key string) error {
	_, err := c.send(ctx, &call{op: opDeleteRecord, target: table}, table, key)
	return err
}
