package schemas

import (
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

const twoMessages = `syntax = "proto3"; message A { string x = 1; } message B { message C { int32 y = 1; } }`

// guidOf registers a schema and returns what a serializer writes into the header: a
// byte for the GUID, the GUID, and of Protobuf the message's indexes.
func (d *desk) guidOf(t testing.TB, subject, text string, typ sr.SchemaType, indexes ...byte) []byte {
	t.Helper()
	_, version, err := d.RegisterSchema(subject, sr.Schema{Schema: text, Type: typ})
	if err != nil {
		t.Fatal(err)
	}
	client, err := sr.NewClient(sr.URLs("http://registry"), sr.HTTPClient(&http.Client{Transport: d}))
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.SchemaByVersion(t.Context(), subject, version)
	if err != nil {
		t.Fatal(err)
	}
	guid, err := hex.DecodeString(strings.ReplaceAll(found.GUID, "-", ""))
	if err != nil || len(guid) != 16 {
		t.Fatalf("GUID: got %q", found.GUID)
	}
	return slices.Concat([]byte{1}, guid, indexes)
}

// soonNamed decodes as often as it takes for the schema to come.
func soonNamed(t testing.TB, d SchemaDecoder, name, data []byte) (Value, error) {
	t.Helper()
	for range 1000 {
		v, err := d.DecodeNamed(name, data)
		if !errors.Is(err, ErrSchemaUnavailable) {
			return v, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the schema never came")
	return Value{}, nil
}

func TestAHeaderNamesTheSchemaOfEachFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		number := d.register(t, "a", oneInt, sr.TypeAvro)
		for _, c := range []struct {
			name   string
			format Format
			header []byte
			data   []byte
			want   string
		}{
			{"avro", FormatAvro, d.guidOf(t, "a", oneInt, sr.TypeAvro), []byte{4}, `{"a":2}`},
			{"avro, by id", FormatAvro, framed(number), []byte{4}, `{"a":2}`},
			{"avro, a value like a prefix", FormatAvro, d.guidOf(t, "five", `{"type":"fixed","name":"f","size":6}`, sr.TypeAvro), []byte{0, 0, 0, 0, 1, 4}, `"AAAAAAEE"`},
			{"json-schema", FormatJSONSchema, d.guidOf(t, "j", `{"type":"object"}`, sr.TypeJSON), []byte(`{"a":1.50}`), `{"a":1.50}`},
			{"protobuf", FormatProtobuf, d.guidOf(t, "p", twoMessages, sr.TypeProtobuf, 0), []byte{0x0a, 1, 'v'}, `{"x":"v"}`},
			{"protobuf, an empty message", FormatProtobuf, d.guidOf(t, "p", twoMessages, sr.TypeProtobuf, 0), nil, `{"x":""}`},
			{"protobuf, a nested message", FormatProtobuf, d.guidOf(t, "p", twoMessages, sr.TypeProtobuf, 4, 2, 0), []byte{8, 7}, `{"y":7}`},
		} {
			v, err := soonNamed(t, r.Decoder(c.format), c.header, c.data)
			if got := string(v.AppendJSON(nil)); err != nil || got != c.want {
				t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
			}
		}
	})
}

func TestADecoderTakesBothWaysOfNamingASchemaInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		id := d.register(t, "p", twoMessages, sr.TypeProtobuf)
		header := d.guidOf(t, "p", twoMessages, sr.TypeProtobuf, 4, 2, 0)
		other := d.guidOf(t, "other", `syntax = "proto3"; message Z { int32 z = 1; }`, sr.TypeProtobuf, 0)
		decoder := r.Decoder(FormatProtobuf)
		d.asked.Store(0)
		for range 3 {
			if v, err := soonNamed(t, decoder, header, []byte{8, 7}); err != nil || v.Get("y").Text() != "7" {
				t.Fatalf("by header: got %s, %v", v.AppendJSON(nil), err)
			}
			if v, err := soonNamed(t, decoder, other, []byte{8, 7}); err != nil || v.Get("z").Text() != "7" {
				t.Fatalf("by another header: got %s, %v", v.AppendJSON(nil), err)
			}
			if v, err := soon(t, decoder, framed(id, 0, 0x0a, 1, 'v')); err != nil || v.Get("x").Text() != "v" {
				t.Fatalf("by prefix: got %s, %v", v.AppendJSON(nil), err)
			}
		}
		if got := d.asked.Load(); got != 3 {
			t.Errorf("requests: got %d, want one for each GUID and one for the id", got)
		}
	})
}

func TestAHeaderThatNamesNoSchemaSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, nil)
		defer r.Close()
		avro, proto := d.guidOf(t, "a", oneInt, sr.TypeAvro), d.guidOf(t, "p", twoMessages, sr.TypeProtobuf)
		unknown := append([]byte{1}, []byte("0123456789abcdef")...)
		for _, c := range []struct {
			name    string
			format  Format
			header  []byte
			data    []byte
			want    string
			missing bool
		}{
			{"nothing in it", FormatAvro, []byte{}, []byte{4}, "avro: offset 0: " + ruleName, false},
			{"a GUID cut off", FormatAvro, avro[:16], []byte{4}, "avro: offset 0: " + ruleName, false},
			{"a GUID as text", FormatAvro, []byte("4c1f0c1e-0000-4000-8000-000000000001"), []byte{4}, "avro: offset 0: " + ruleName, false},
			{"indexes for Avro", FormatAvro, append(avro[:17:17], 0), []byte{4}, "avro: offset 0: " + ruleName, false},
			{"a GUID that the registry does not know", FormatAvro, unknown, []byte{4}, "avro: offset 0: schema 30313233-3435-3637-3839-616263646566: the registry does not know it", true},
			{"another format's schema", FormatProtobuf, append(avro[:17:17], 0), nil, "protobuf: offset 0: schema ", false},
			{"data after the value", FormatAvro, avro, []byte{2, 2}, "avro: offset 1: data after the value", false},
			{"no indexes", FormatProtobuf, proto, nil, "protobuf: the header that names its schema: ends too early", false},
			{"more than indexes", FormatProtobuf, append(proto[:17:17], 0, 0), nil, "protobuf: the header that names its schema: data after the value", false},
			{"a message that is not in the file", FormatProtobuf, append(proto[:17:17], 2, 8), nil, "protobuf: the header that names its schema: " + errIndexes.Error(), false},
		} {
			_, err := soonNamed(t, r.Decoder(c.format), c.header, c.data)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || errors.Is(err, ErrSchemaMissing) != c.missing {
				t.Errorf("%s: got %v, want %s", c.name, err, c.want)
			}
		}
	})
}

// Registries that are older than GUIDs answer as they do to any unknown path. The
// records wait: nothing is wrong with them.
func TestARegistryThatFindsNoSchemaByGUIDSaysSo(t *testing.T) {
	for name, trip := range map[string]func(*http.Request) (*http.Response, error){
		"Confluent's 404": answers(404, `{"error_code":404,"message":"HTTP 404 Not Found"}`),
		"a proxy's 404":   answers(404, `<html>not found</html>`),
		"405":             answers(405, ``),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk()
				header := d.guidOf(t, "a", oneInt, sr.TypeAvro)
				d.trips = trip
				r := d.open(t, nil)
				defer r.Close()
				decoder := r.Decoder(FormatAvro)
				d.asked.Store(0)
				for range 600 { // a minute
					if _, err := decoder.DecodeNamed(header, []byte{4}); !errors.Is(err, ErrSchemaUnavailable) {
						t.Fatalf("got %v, want ErrSchemaUnavailable", err)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if got := d.asked.Load(); got < 9 || got > 12 { // after 1, 2, 3 … seconds
					t.Errorf("requests: got %d, want about 11", got)
				}
				if err := r.Err(); err == nil || !strings.Contains(err.Error(), "does not find schemas by GUID") {
					t.Errorf("trouble: got %v, want what to do", err)
				}
				d.trips = nil
				time.Sleep(time.Minute)
				if _, err := soonNamed(t, decoder, header, []byte{4}); err != nil {
					t.Errorf("after an upgrade: %v", err)
				}
			})
		})
	}
}
