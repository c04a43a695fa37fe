package service

import (
	"context"
	"encoding/json"
	"net/http"
)

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
	got, err := c.sendFixed(ctx, &call{op: OpUpsertProfile, method: http.MethodPost, target: table, body: body},
		c.profiles, table, "/profiles")
	return ProfileRef{got}, err
}

// PatchProfile changes what body mentions (operation 2); for body see
// UpsertProfile. id is the service's.
func (c *Client) PatchProfile(ctx context.Context, table, id string, body Body) (ProfileRef, error) {
	got, err := c.send(ctx, &call{op: OpPatchProfile, method: http.MethodPatch, target: table, body: body},
		c.profiles, table, "/profiles/", id)
	return ProfileRef{got}, err
}

// DeleteProfile deletes by the service's id (operation 3). NotFound means that
// there was none.
func (c *Client) DeleteProfile(ctx context.Context, table, id string) error {
	_, err := c.send(ctx, &call{op: OpDeleteProfile, method: http.MethodDelete, target: table},
		c.profiles, table, "/profiles/", id)
	return err
}
