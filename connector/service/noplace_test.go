package service

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// places are texts of 404s, and whether they say that there is no such entity or table.
var places = map[string]bool{
	`{"error":"no such entity","status":404}`:                                         true,
	`{"error":"no such table","status":404}`:                                          true,
	`{"code":"TABLE_NOT_FOUND"}`:                                                      true,
	`{"code":"ENTITY_UNKNOWN"}`:                                                       true,
	`{"code":"UNKNOWN_ENTITY","message":"acme"}`:                                      true,
	`{"errors":[{"code":"CUSTOM_TABLE_NOT_FOUND"}]}`:                                  true,
	`{"code":"TABLE_NOT_FOUND","message":"Cannot delete record k1: no table orders"}`: true,
	`{"exception":"com.acme.TableNotFoundException"}`:                                 true,
	`{"error":"unknown table: x"}`:                                                    true,
	`{"message":"Entity 'acme' does not exist"}`:                                      true,
	`{"message":"Entity acme doesn't exist"}`:                                         true,
	`{"message":"The table customers was not found"}`:                                 true,
	`{"message":"The profile table \"profiles\" was not found in entity acme"}`:       true,
	`{"error":"no custom table named x"}`:                                             true,
	`{"error":"customTable orders is unknown"}`:                                       true,
	`{"error":"profileTable customers not found for entity acme"}`:                    true,
	`"table orders has been deleted"`:                                                 true,
	`{"detail":"Could not find table orders","instance":"/custom-data/v4/entity/acme/customTable/orders/record/k1"}`: true,
	`{"error":"acme is not a known entity"}`:                   true,
	`{"error":"no table orders in entity acme"}`:               true,
	`{"title":"Not Found","detail":"Entity acme is unknown."}`: true,
	`{"error":"table customer does not exist"}`:                true,

	`{"error":"no record has this business key","status":404}`:                 false,
	`{"error":"no profile has this id","status":404}`:                          false,
	`{"error":"record 5 not found in table customers"}`:                        false,
	`{"error":"table customers: no record for the key"}`:                       false,
	`{"error":"entity acme: profile C1 not found"}`:                            false,
	`{"error":"Profile not found for entity acme"}`:                            false,
	`{"error":"entity acme: C1 not found"}`:                                    false,
	`{"error":"table customers: not found"}`:                                   false,
	`{"error":"no table record with this key"}`:                                false,
	`{"error":"table record not found"}`:                                       false,
	`{"error":"Custom table record k1 does not exist"}`:                        false,
	`{"error":"no such record or table"}`:                                      false,
	`{"error":"nothing found in table customers"}`:                             false,
	`{"error":"unknown in table customers"}`:                                   false,
	`{"code":"NOT_FOUND","table":"customers","entity":"acme"}`:                 false,
	`{"code":"ENTITY_NOT_FOUND","message":"Profile with id 5 does not exist"}`: false,
	`{"code":"PROFILE_NOT_FOUND","table":"unknown table"}`:                     false,
	`{"exception":"javax.persistence.EntityNotFoundException"}`:                false,
	`{"message":"No entity found for query"}`:                                  false,
	`{"message":"Entity k1 does not exist"}`:                                   false,
	`{"message":"Entity 'k1' not found"}`:                                      false,
	`{"message":"Entity with id 17 not found"}`:                                false,
	`{"error":"row not found","path":"/entities/acme/tables/x"}`:               false,
	`{"error":"no such entry in the table customers of entity acme"}`:          false,
	`{"error":"no such thing"}`:                                                false,
	`{"error":"unknown key; the table orders has 12 fields"}`:                  false,
	`{}`: false,
}

// TestEntityOrTableThatDoesNotExistIsNoWordAboutARecord: a wrong entity, or a table that was
// taken away, confirms no delete and makes no dead letter.
func TestEntityOrTableThatDoesNotExistIsNoWordAboutARecord(t *testing.T) {
	body := ""
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, body)
	}}
	c := s.start(t)
	calls := map[string]func() error{
		"patch profile":  func() error { _, err := c.PatchProfile(t.Context(), "customers", "k1", JSON(`{}`)); return err },
		"delete profile": func() error { return c.DeleteProfile(t.Context(), "customers", "k1") },
		"update record":  func() error { _, err := c.UpdateRecord(t.Context(), "orders", "k1", JSON(`{}`)); return err },
		"get record":     func() error { _, err := c.GetRecord(t.Context(), "orders", "k1"); return err },
		"delete record":  func() error { return c.DeleteRecord(t.Context(), "orders", "k1") },
	}
	for said, noPlace := range places {
		body = said
		for name, call := range calls {
			e := errorOf(t, call())
			want := NotFound
			if noPlace {
				want = Transient
			}
			if e.Kind() != want || e.NoPlace() != noPlace || e.Unknown() {
				t.Errorf("%s: %s: got %v, no place %v, unknown %v; want %v", name, said, e.Kind(), e.NoPlace(), e.Unknown(), want)
			}
			if noPlace && !strings.Contains(e.Error(), "check service.entity") {
				t.Errorf("%s: got %v, want to be told what to check", name, e)
			}
		}
	}
}

// TestEntityOrETLThatDoesNotExistForgetsNoExecution: what became of an import is asked for again.
func TestEntityOrETLThatDoesNotExistForgetsNoExecution(t *testing.T) {
	body := ""
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, body)
	}}
	c := s.start(t)
	for said, want := range map[string]Kind{
		`{"error":"no such entity"}`:                        Transient,
		`{"error":"no such ETL"}`:                           Transient,
		`{"code":"ETL_NOT_FOUND"}`:                          Transient,
		`{"error":"ETL 101 does not exist"}`:                Transient,
		`{"error":"no such execution"}`:                     NotFound,
		`{"error":"no such ETL execution"}`:                 NotFound,
		`{"error":"execution 5 of ETL 101 not found"}`:      NotFound,
		`{"error":"entity acme: execution 5 not found"}`:    NotFound,
		`{"error":"the execution has no output files"}`:     NotFound,
		`{"error":"ETL 101: no result file for table x"}`:   NotFound,
		`{"error":"no output files in the entity's place"}`: NotFound,
	} {
		body = said
		_, results := c.Results(t.Context(), "5")
		_, outputs := c.OutputFiles(t.Context(), "5", &strings.Builder{})
		for _, err := range []error{results, outputs} {
			if e := errorOf(t, err); e.Kind() != want || want == Transient && !strings.Contains(e.Error(), "the ETL's id") {
				t.Errorf("%s: got %v (%v), want %v", said, e, e.Kind(), want)
			}
		}
	}
}
