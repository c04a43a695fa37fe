package online

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Of the interface, three operations change nothing besides the token: reading a table
// record (6), an execution's results (11) and its output files (12). Whether a table or
// the entity exists they tell only by how they refuse, which the interface leaves open.
// So names that cannot exist are asked for beside the configured ones: what is answered
// otherwise than those exists.

// service checks token, address, entity and tables.
func (c checker) service() []Check {
	token := "token from " + c.cfg.Service.AuthURL
	client, err := build.NewService(c.cfg.Service)
	if err != nil {
		return []Check{{token, Fail, err.Error()}}
	}
	defer client.Close()
	if err := client.Authenticate(c.ctx); err != nil {
		return []Check{
			{token, Fail, adviceOn(err, "service.authURL")},
			{"service " + c.cfg.Service.BaseURL + ", entity and tables", NotChecked, "there is no token"},
		}
	}
	checks := []Check{{token, OK, ""}}
	address, answers := c.address(client)
	checks = append(checks, address)
	if !answers {
		return append(checks, Check{"entity and tables", NotChecked, "the service does not answer"})
	}
	checks = append(checks, c.entity(client))
	return append(checks, c.tables(client)...)
}

// adviceOn is an error of the service with what to do about it.
func adviceOn(err error, key string) string {
	if e, ok := errors.AsType[*service.Error](err); ok && e.Kind() == service.Canceled && !strings.Contains(err.Error(), key) {
		return fmt.Sprintf("no answer within %v; check %s, service.proxy, and firewalls and network policies in between", limit, key)
	}
	if hint := service.Hint(err, key); hint != "" {
		return fmt.Sprintf("%v; %s", err, hint)
	}
	return err.Error()
}

// answer is how the service answered, for comparison: words is its text without the
// names that were asked for.
type answer struct {
	status int
	words  string
	err    error // nil: it found something
}

// like reports whether an answer is that to a name that cannot exist, of which
// there are two: where even those differ by their words, the status alone counts.
func (a answer) like(unknown, another answer) bool {
	return a.status == unknown.status && (unknown.words != another.words || a.words == unknown.words)
}

// told reports whether the answer is the service's own about what was asked for.
func (a answer) told() bool {
	e, ok := errors.AsType[*service.Error](a.err)
	return a.err == nil || ok && (e.Kind() == service.NotFound || e.NoPlace() || e.Kind() == service.Rejected || e.Kind() == service.Conflict)
}

// varying are parts of words that differ from answer to answer: times and ids.
var varying = regexp.MustCompile(`[0-9a-fA-F-]*[0-9][0-9a-zA-Z:.+-]*`)

func answerOf(err error, names ...string) answer {
	a := answer{err: err, status: http.StatusOK}
	if e, ok := errors.AsType[*service.Error](err); ok {
		a.status, a.words = e.Status(), e.Reason()
	}
	for _, name := range names {
		a.words = strings.ReplaceAll(a.words, name, "NAME")
	}
	a.words = varying.ReplaceAllString(a.words, "0")
	return a
}

// unknown is a name that nothing has.
func unknown() string { return "feedsink-check-" + uuid.NewString() }

// address asks for the results of an execution that does not exist: any answer of the
// service's own shows that base URL and token are good. answers is false if none came.
func (c checker) address(client *service.Client) (_ Check, answers bool) {
	what := "service " + c.cfg.Service.BaseURL
	a := c.results(client, c.cfg.Service.Entity)
	e, _ := errors.AsType[*service.Error](a.err)
	switch {
	case a.told():
		return Check{what, OK, "it answers"}, true
	case e != nil && e.Status() == http.StatusForbidden && len(c.router.Topics(schemas.Batch)) == 0:
		return Check{what, OK, "it answers"}, true
	case e != nil && e.Status() == http.StatusForbidden:
		return Check{what, Fail, "the API key lacks the right to read an import's results; have it granted"}, true
	}
	return Check{what, Fail, adviceOn(a.err, "service.baseURL")}, false
}

// results asks for those of an execution that does not exist.
func (c checker) results(client *service.Client, entity string) answer {
	execution := unknown()
	_, err := client.Results(c.ctx, execution)
	return answerOf(err, execution, entity)
}

// aboutEntity and aboutTable are how the service says what it does not know.
var (
	aboutEntity = regexp.MustCompile(`(?i)\bentity\b`)
	aboutTable  = regexp.MustCompile(`(?i)\btable\b`)
	aboutItem   = regexp.MustCompile(`(?i)\b(record|key|execution|result)`)
)

// entity compares the configured entity with one that does not exist.
func (c checker) entity(client *service.Client) Check {
	name := c.cfg.Service.Entity
	what := "entity " + name
	other := c.cfg.Service
	other.Entity = unknown()
	elsewhere, err := build.NewService(other)
	if err != nil {
		return Check{what, NotChecked, err.Error()}
	}
	defer elsewhere.Close()
	mine, none, another := c.results(client, name), c.results(elsewhere, other.Entity), c.results(elsewhere, other.Entity)
	switch {
	case !mine.told() || !none.told() && none.status != http.StatusForbidden:
		return Check{what, NotChecked, fmt.Sprintf("the service does not say: it answers %d", mine.status)}
	case !mine.like(none, another):
		return Check{what, OK, "the service knows it"}
	case aboutEntity.MatchString(mine.words) && !aboutItem.MatchString(mine.words):
		return Check{what, Fail, "the service does not know it; correct service.entity"}
	}
	return Check{what, NotChecked, "the service answers for it as for one that does not exist; the first calls and imports tell"}
}

// tables compares each custom table with one that does not exist. Profiles cannot be
// read.
func (c checker) tables(client *service.Client) []Check {
	mappings := c.router.Mappings()
	var none, another answer
	mine := make([]answer, len(mappings))
	var asking sync.WaitGroup
	ask := func(into *answer, table string) {
		asking.Go(func() {
			key := unknown()
			_, err := client.GetRecord(c.ctx, table, key)
			*into = answerOf(err, key, table, c.cfg.Service.Entity)
		})
	}
	custom := false
	for i, m := range mappings {
		if m.Table.Custom {
			custom = true
			ask(&mine[i], m.Table.Name)
		}
	}
	if custom {
		ask(&none, unknown())
		ask(&another, unknown())
	}
	asking.Wait()
	tells := false // by its answers the service tells tables that exist
	for i, m := range mappings {
		tells = tells || m.Table.Custom && mine[i].told() && none.told() && !mine[i].like(none, another)
	}
	checks := make([]Check, len(mappings))
	for i, m := range mappings {
		checks[i] = tableCheck(m, mine[i], none, another, tells)
	}
	return checks
}

// noDefinition says what cannot be asked of any table.
const noDefinition = "the interface shows no table's fields: the first calls and imports tell whether all are there"

func tableCheck(m *router.Compiled, mine, none, another answer, tells bool) Check {
	what := fmt.Sprintf("table %s of %s", m.Table.Name, m.Name)
	e, _ := errors.AsType[*service.Error](mine.err)
	switch {
	case !m.Table.Custom:
		return Check{what, NotChecked, "the interface has no operation that reads of profile tables; the first call or import tells whether it and its attributes exist"}
	case e != nil && e.Status() == http.StatusForbidden:
		return Check{what, NotChecked, "the API key may not read records; a sink needs that only for creates that are repeated"}
	case !mine.told():
		return Check{what, NotChecked, adviceOn(mine.err, "service.baseURL")}
	case !none.told():
		return Check{what, NotChecked, "for a table that does not exist the service answers: " + none.err.Error()}
	case !mine.like(none, another):
		return Check{what, OK, "the service knows it; " + noDefinition}
	case tells, aboutTable.MatchString(mine.words) && !aboutItem.MatchString(mine.words):
		return Check{what, Fail, "the service does not know it; correct customTable, or create the table"}
	}
	return Check{what, NotChecked, "the service answers for it as for one that does not exist; the first call or import tells"}
}

// etls says what is taken for granted of ETLs: the service has no operation that shows
// a definition, and triggering one would start an import.
func (c checker) etls() (checks []Check) {
	for _, m := range c.router.Mappings() {
		for _, op := range schemas.Ops {
			if load := m.Import(op); load != nil {
				checks = append(checks, etlCheck(m, op, load))
			}
		}
	}
	return checks
}

func etlCheck(m *router.Compiled, op schemas.Op, load *router.Import) Check {
	detail := "the interface has no operation that shows an ETL, and triggering one starts an import; the first import tells whether it exists"
	var kept []string
	for _, col := range m.FileColumns(op) {
		if col.IgnoresEmpty {
			kept = append(kept, col.Header)
		}
	}
	if load.Fingerprint == "" && len(kept) > 0 {
		detail += ". Its definition must have ignoreEmptyValues: true for " + strings.Join(kept, ", ") + ": without it, what a row leaves empty is erased"
	}
	return Check{fmt.Sprintf("ETL %s for %v of %s", load.ETL, op, m.Name), NotChecked, detail}
}
