package dev

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/words"
)

// remoteLocation is the one that the service alone has.
const remoteLocation = "crm"

// Service is the service alone, to be fed by hand or by a sink that runs
// elsewhere.
type Service struct {
	*sandbox.Sandbox
	URL     string // base address, and address of the tokens
	APIKey  string
	Entity  string
	Tables  []sandbox.Table
	ETLs    []sandbox.ETL
	Folder  string // of the remote location
	Dropped string // folder of the entity's transfer box

	server *sandbox.Server
}

// Contents are what a service holds in place of the playground's tables.
type Contents struct {
	Entity   string
	APIKey   string // accepted besides the playground's; "": none
	Tables   []sandbox.Table
	ETLs     []sandbox.ETL
	Location *time.Location // calendar of the slots; nil: UTC
}

// StartService opens the service at a TCP address, its files below dir, which
// is the caller's to remove. Reports go to log. A day has the document's 12 imports, if the
// tables do not say otherwise. Without contents the tables are the playground's with one
// more whose records go with their customer.
func StartService(dir, address string, log *slog.Logger, with *Contents) (*Service, error) {
	c := service(dir)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	c.SlotsPerDay, c.Log, c.Folders = 0, log, filepath.Join(dir, "locations")
	if with == nil {
		c = withMore(c)
	} else {
		c.Entity, c.Tables, c.ETLs, c.Location = with.Entity, with.Tables, with.ETLs, with.Location
		if with.APIKey != "" {
			c.APIKeys = append(c.APIKeys, with.APIKey)
		}
	}
	s := &Service{APIKey: apiKey, Entity: c.Entity, Tables: c.Tables, ETLs: c.ETLs}
	var err error
	if s.Sandbox, err = sandbox.New(c); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	if s.Folder, err = s.Sandbox.Folder(sandbox.Location{Remote: remoteLocation}); err == nil {
		s.Dropped, err = s.Sandbox.Folder(sandbox.Location{TransferBox: c.Entity})
	}
	if err == nil {
		s.server, err = s.Start(address)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("service: %w", err), s.Sandbox.Close())
	}
	s.URL = s.server.URL()
	return s, nil
}

// withMore adds what the playground itself does not use.
func withMore(c sandbox.Config) sandbox.Config {
	c.Tables = append(c.Tables, sandbox.Table{
		Name: "visits", Custom: true,
		Fields: []sandbox.Field{{Name: "customer"}, {Name: "page"}, {Name: "seen", Type: sandbox.Timestamp}},
		Link: sandbox.Link{
			Table: "customers", Attribute: "customerNumber", Property: "customer",
			Capability: "Interaction", Cascade: true,
		},
	})
	customers := func(mode sandbox.Mode) []sandbox.Load {
		return []sandbox.Load{{Table: "customers", Mode: mode, GenerateErrorFiles: true, FileNamePattern: "customers*.csv"}}
	}
	patches := customers(sandbox.UpdateOnly)
	patches[0].IgnoreEmptyValues = true // a patch's row leaves empty what it does not name
	orders := sandbox.Load{Table: "orders", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true, FileNamePattern: "orders*.csv"}
	c.ETLs = append(c.ETLs,
		sandbox.ETL{ID: "103", Loads: patches},
		sandbox.ETL{ID: "104", Loads: customers(sandbox.CreateOnly)},
		sandbox.ETL{ID: "201", Loads: []sandbox.Load{orders}},
		sandbox.ETL{ID: "301", Loads: append(customers(sandbox.CreateOrUpdate), orders)},
		sandbox.ETL{
			ID: "401", Loads: customers(sandbox.CreateOrUpdate), Recipients: []string{"operator@example.com"},
			Fetch: sandbox.Fetch{Remote: remoteLocation, Delete: true}, Output: sandbox.Location{TransferBox: c.Entity},
		},
	)
	return c
}

// Close ends the service.
func (s *Service) Close() error { return s.Sandbox.Close() }

// Text is where the service is and what it holds, for a terminal; key is what it says of the API
// key.
func (s *Service) Text(key string) string {
	table := words.Table{
		{"service", s.URL + "  (base and token address)"}, {"page", s.URL + "/_sandbox/"}, {"entity", s.Entity}, {"API key", key},
	}
	name := "tables"
	for _, t := range s.Tables {
		table.Add(name, tableText(t))
		name = ""
	}
	name = "ETLs"
	for _, e := range s.ETLs {
		table.Add(name, etlText(e))
		name = ""
	}
	table.Add("remote location", "crm  "+s.Folder)
	table.Add("transfer box", s.Entity+"  "+s.Dropped)
	return table.Columns() + "\n\nCtrl-C ends it; nothing is kept."
}

func tableText(t sandbox.Table) string {
	kind := "profiles by " + strings.Join(t.Keys, ", ")
	if t.Custom {
		kind = "records by businessKey"
	}
	if t.SlotsPerDay > 0 {
		kind += ", " + words.Counted(t.SlotsPerDay, "import") + " a day"
	}
	if t.Link.Table != "" {
		kind += ", deleted with their " + t.Link.Table
	}
	return t.Name + "  " + kind
}

func etlText(e sandbox.ETL) string {
	var loads []string
	for _, l := range e.Loads {
		loads = append(loads, l.Table+" "+string(l.Mode))
	}
	text := e.ID + "  " + strings.Join(loads, " and ")
	if len(loads) > 1 {
		text += ", from one ZIP"
	}
	if e.Fetch.Remote != "" {
		text += ", from a file pushed or at the remote location " + e.Fetch.Remote
	}
	return text
}
