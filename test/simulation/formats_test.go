//go:build simulation

package simulation

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/twmb/avro"
)

// What the records of a table's topic are written in.
const (
	canonical = "canonical" // JSON of the sink's own form
	mapped    = "json"      // other JSON
	inAvro    = "avro"      // by two versions of a schema in the registry
	debezium  = "debezium"  // JSON without schemas; of ops only upserts, deletes, and patches that leave the note out
)

const registryAt = "localhost:8081"

// written are the versions of the Avro schema, whose ids in the registry begin with 1.
var written = [...]*avro.Schema{
	avro.MustParse(writtenAs(`{"name":"note","type":["null","string"]}`)),
	avro.MustParse(writtenAs(`{"name":"more","type":"boolean"},{"name":"note","type":["string","null"]}`)),
}

func writtenAs(fields string) string {
	return `{"type":"record","name":"Change","fields":[{"name":"what","type":"string"},{"name":"id","type":"string"},{"name":"seq","type":["null","long"]},` + fields + `]}`
}

// registry is the schema registry.
type registry struct{ away atomic.Bool }

// ServeHTTP answers for the versions of the schema.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.away.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	for i, schema := range written {
		if q.URL.Path == fmt.Sprintf("/schemas/ids/%d", i+1) {
			_ = json.NewEncoder(w).Encode(map[string]string{"schema": schema.String()})
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

// usesAvro reports whether any table's records are in Avro.
func (p *plan) usesAvro() bool {
	return slices.ContainsFunc(p.tables, func(t *table) bool { return t.format == inAvro })
}

// reading is what the table's mapping says of its records.
func (t *table) reading(key string) string {
	op := "    op: what\n"
	switch t.format {
	case canonical:
		return ""
	case inAvro:
		op += "    format: avro\n"
	case debezium:
		op = "    envelope: debezium\n"
	}
	return op + fmt.Sprintf("    fields: [{from: id, to: %s}, {from: seq, to: seq, null: omit}, {from: note, to: note, null: omit}]\n", key)
}

// kafkaKey is the key of the records of a row.
func (t *table) kafkaKey(name string) []byte {
	if t.format == debezium {
		return text(map[string]any{"id": name})
	}
	return []byte(name)
}

// value is what the event is written as; nil: a tombstone.
func (t *table) value(rnd *rand.Rand, name string, e *event) []byte {
	if e.op == "delete" && rnd.IntN(3) == 0 {
		return nil
	}
	values := map[string]any{}
	for column, v := range e.values {
		values[column] = v
	}
	if v, named := e.values["seq"]; named {
		values["seq"] = json.Number(v)
	}
	if values["note"] == "" {
		values["note"] = nil
	}
	switch t.format {
	case mapped:
		if _, named := values["note"]; !named && rnd.IntN(2) == 0 {
			values["note"] = nil
		}
		values["what"], values["id"] = e.op, name
		return text(values)
	case inAvro:
		return inVersion(rnd.IntN(len(written)), name, e)
	case debezium:
		return changed(rnd, name, e, values)
	}
	body := map[string]any{"op": e.op}
	if t.custom() {
		body["businessKey"], body["properties"] = name, values
	} else {
		values["customerNumber"] = name
		body["key"], body["attributes"] = map[string]any{"customerNumber": name}, values
	}
	return text(body)
}

// changed is the event as a change of a database's row.
func changed(rnd *rand.Rand, name string, e *event, row map[string]any) []byte {
	row["id"] = name
	change := map[string]any{"source": map[string]any{"connector": "simulated"}}
	switch e.op {
	case "delete":
		change["op"], change["before"] = "d", row
	case "patch":
		change["op"], row["note"] = "u", "__debezium_unavailable_value"
	default:
		change["op"] = pick(rnd, "c", "u", "r")
	}
	if e.op != "delete" {
		change["after"] = row
	}
	return text(change)
}

// inVersion is the event in one of the versions of the schema.
func inVersion(version int, name string, e *event) []byte {
	record := map[string]any{"what": e.op, "id": name, "seq": nil, "note": nil, "more": true}
	if v, named := e.values["seq"]; named {
		n, err := json.Number(v).Int64()
		if err != nil {
			panic(err) // it is the generator's
		}
		record["seq"] = n
	}
	if v, named := e.values["note"]; named {
		record["note"] = v
	}
	value, err := written[version].AppendEncode(binary.BigEndian.AppendUint32([]byte{0}, uint32(version+1)), record)
	if err != nil {
		panic(err)
	}
	return value
}

func text(of map[string]any) []byte {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return text
}
