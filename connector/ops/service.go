package ops

import (
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// Service is what a service in process holds for the configuration: its tables with their
// slots, which check the types that the file names and take any other field, and its ETLs
// by their ids. Imports without an ETL are left out. An API key that cannot be read is too.
func Service(cfg *config.Config) (*dev.Contents, error) {
	r, err := first(check.CompileUnfinished(cfg.Mappings))
	if err != nil {
		return nil, err
	}
	c := &dev.Contents{Entity: cfg.Service.Entity}
	if key, err := cfg.Service.Key()(); err == nil {
		c.APIKey = key.Reveal()
	}
	for _, m := range r.Mappings() {
		addTable(c, m)
		if zone, err := time.LoadLocation(m.Config.Imports.Timezone); err == nil && c.Location == nil {
			c.Location = zone
		}
		for _, op := range schemas.Ops {
			load := m.Import(op)
			known := load == nil || load.ETL == config.NoETL ||
				slices.ContainsFunc(c.ETLs, func(e sandbox.ETL) bool { return e.ID == load.ETL })
			if !known {
				c.ETLs = append(c.ETLs, sandboxETL(m, op))
			}
		}
	}
	return c, nil
}

// addTable adds the mapping's table, or what the mapping says more of it.
func addTable(c *dev.Contents, m *router.Compiled) {
	i := slices.IndexFunc(c.Tables, func(t sandbox.Table) bool { return t.Name == m.Table.Name && t.Custom == m.Table.Custom })
	if i < 0 {
		i = len(c.Tables)
		c.Tables = append(c.Tables, sandbox.Table{Name: m.Table.Name, Custom: m.Table.Custom, Open: true, SlotsPerDay: m.Config.Imports.SlotsPerDay})
	}
	t := &c.Tables[i]
	if !t.Custom && !slices.Contains(t.Keys, m.KeyName) {
		t.Keys = append(t.Keys, m.KeyName)
	}
	for _, f := range m.Config.Types {
		addField(t, m, f.Name, f.As, f.Of, f.Length)
	}
	for _, f := range m.Config.Fields {
		addField(t, m, f.To, f.As, f.Of, 0)
	}
}

// sandboxTypes are the types behind a conversion; those that are missing are formats of texts.
var sandboxTypes = map[string]sandbox.Type{
	"string": sandbox.String, "integer": sandbox.Integer, "number": sandbox.Number, "boolean": sandbox.Boolean,
	"date": sandbox.Date, "timestamp": sandbox.Timestamp,
}

// addField adds an attribute or property whose type is known.
func addField(t *sandbox.Table, m *router.Compiled, name, as, of string, length int) {
	place, err := values.ParsePlace(m.Table, name)
	target := values.NewTarget(place, nil)
	switch {
	case err != nil, as == "", as == "list" && of == "", name == m.KeyName, target.Computed(),
		place.Section != schemas.Attributes && place.Section != schemas.Properties,
		slices.ContainsFunc(t.Fields, func(f sandbox.Field) bool { return f.Name == name }):
		return
	}
	field := sandbox.Field{Name: name, MaxLength: length, Multi: as == "list"}
	if field.Multi {
		as = of
	}
	if kind, is := sandboxTypes[as]; is {
		field.Type = kind
	} else {
		field.Format = sandbox.Format(as)
	}
	t.Fields = append(t.Fields, field)
}

// sandboxETL is the ETL that loads the rows of an operation, as etl create makes it, with
// the id that the file names.
func sandboxETL(m *router.Compiled, op schemas.Op) sandbox.ETL {
	etl := sandbox.ETL{ID: m.Import(op).ETL}
	for i, from := range ETLOf(m, op).Definition.Files {
		load := sandbox.Load{
			Table: loading(m, op)[i].Label, Mode: sandbox.Mode(from.Parameters.Mode), GenerateErrorFiles: true,
			CSV:             csvfile.Format{Encoding: from.CSV.Encoding, Separator: from.CSV.Separator, Enclosing: from.CSV.Enclosing},
			FileNamePattern: from.NamePattern, Compression: csvfile.Compression(from.Compression),
		}
		for _, c := range from.Destination.Attributes {
			column := sandbox.Column{Header: c.Header, Attribute: c.Name}
			column.IgnoreEmptyValues = c.IgnoreEmptyValues || m.Import(op).IgnoresEmpty && c.Name != m.KeyName
			load.Columns = append(load.Columns, column)
		}
		etl.Loads = append(etl.Loads, load)
	}
	return etl
}
