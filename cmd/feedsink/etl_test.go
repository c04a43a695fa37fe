package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

func TestEtlCreateMakesWhatTheMappingNeedsAndGuardsIt(t *testing.T) {
	d := newHost(t)
	code, out, failed := d.run("etl create --mapping customers -o json")
	var made []struct{ Op, ID, Line, Fingerprint string }
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 || len(made) != 1 || made[0].Op != "upsert" || made[0].ID == "" {
		t.Fatalf("got code %d, %s %s, want the ETL of upsert", code, out, failed)
	}
	// The line is what the configuration wants.
	d.change("upsert: {mode: CREATE_OR_UPDATE}", made[0].Line)
	if _, err := config.Load("feedsink.yaml", os.LookupEnv); err != nil {
		t.Fatalf("with the printed line: %v", err)
	}
	d.change("customerNumber, {name: emailAddress", "customerNumber, {name: firstName}, {name: emailAddress")
	_, err := config.Load("feedsink.yaml", os.LookupEnv)
	if err == nil || !strings.Contains(err.Error(), "feedsink.yaml:12:") || !strings.Contains(err.Error(), "feedsink etl create --mapping customers --op upsert") {
		t.Errorf("with a column more: got %v, want line 12 and a hint", err)
	}
	if calls := d.service.CallCount(9); calls != 1 {
		t.Errorf("operation 9: got %d calls, want 1", calls)
	}
}

func TestEtlCreateDryRunCreatesNothing(t *testing.T) {
	d := newHost(t)
	code, out, failed := d.run("etl create --mapping customers --op delete --dry-run --name erase --report-to a@example.com")
	var definition struct {
		Name, Type       string
		ReportRecipients []string
		DataLoadings     []struct {
			Destination struct {
				AttributesMapping []struct{ Header string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &definition); err != nil || code != 0 {
		t.Fatalf("got code %d, %s %s: %v", code, out, failed, err)
	}
	if got := definition.DataLoadings[0].Destination.AttributesMapping; definition.Name != "erase" || definition.Type != "TRIGGERED" || len(got) != 1 || got[0].Header != "customerNumber" || len(definition.ReportRecipients) != 1 {
		t.Errorf("got %+v, want a definition erase of the key column alone with a recipient", definition)
	}
	if calls := d.service.CallCount(9); calls != 0 {
		t.Errorf("operation 9: got %d calls, want none", calls)
	}
}

func TestEtlCreateSaysWhatIsWrong(t *testing.T) {
	d := newHost(t)
	for line, want := range map[string]string{
		"etl create --mapping customer":                                       "mapping customer: is not in the configuration, which has customers",
		"etl create --mapping customers --op patch":                           "imports.patch is not configured",
		"etl create --mapping customers --op replace":                         "--op: must be upsert, patch, merge, create or delete",
		"etl create --mapping customers --report-to nobody":                   "reportRecipients[0]: is not an e-mail address",
		"etl create --mapping customers -o yaml":                              "-o: must be text or json",
		"etl create":                                                          "--mapping: name the mapping",
		"etl create --mapping customers --drop-remote a --drop-transferbox b": "must name either a remote location or an entity",
	} {
		if code, _, failed := d.run(line); code != 2 || !strings.Contains(failed, want) {
			t.Errorf("%s: got code %d, %q, want 2 and %q", line, code, failed, want)
		}
	}
	d.change("entity: acme", "entity: nobody")
	if code, _, failed := d.run("etl create --mapping customers"); code != 1 || !strings.Contains(failed, "mapping customers, upsert: create ETL") {
		t.Errorf("refused by the service: got code %d, %q, want 1 and the operation", code, failed)
	}
}

const hostOrders = `
  - name: orders
    topics: [shop.orders]
    customTable: orders
    key: businessKey
    bundle: crm
    after: [customers]
    routes: [{lane: batch}]
    imports:
      upsert: {mode: CREATE_OR_UPDATE}
      columns: [businessKey, status]
`

func TestEtlCreateMakesOneForABundleAndALineForEachMapping(t *testing.T) {
	d := newHost(t)
	d.change("    key: customerNumber\n", "    key: customerNumber\n    bundle: crm\n")
	d.change("{name: emailAddress, \"null\": immediate}", "emailAddress")
	d.change(", \"subscriptions#newsletter\"]\n", "]"+hostOrders)
	code, out, failed := d.run("etl create --mapping orders -o json")
	var made []struct {
		Mapping, ID, Line, Fingerprint string
		Others                         []struct{ Mapping, Line string }
		Definition                     struct {
			FileTransfer struct {
				Input struct {
					Files []struct{ FileCode, FileNamePattern, CompressionType string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 || len(made) != 1 || made[0].Mapping != "orders" || len(made[0].Others) != 1 {
		t.Fatalf("got code %d, %s %s, want one ETL with a line for each mapping", code, out, failed)
	}
	files := made[0].Definition.FileTransfer.Input.Files
	if len(files) != 2 || files[0].FileCode != "customers" || files[0].FileNamePattern != "customers.csv" || files[1].FileNamePattern != "orders.csv" || files[1].CompressionType != "ZIP" {
		t.Errorf("got files %+v, want the customers' before the orders', in a ZIP", files)
	}
	d.change("upsert: {mode: CREATE_OR_UPDATE}", made[0].Others[0].Line) // the first in the file
	d.change("upsert: {mode: CREATE_OR_UPDATE}", made[0].Line)
	if _, err := config.Load("feedsink.yaml", os.LookupEnv); err != nil {
		t.Fatalf("with the printed lines: %v", err)
	}
	if code, out, failed := d.run("etl create --mapping customers --op upsert"); code != 0 || strings.Count(out, "write into feedsink.yaml, at mapping ") != 2 {
		t.Errorf("as text: got code %d, %s%s, want what to write at both mappings", code, out, failed)
	}
	// A column more at one of them fits neither any longer.
	d.change("columns: [businessKey, status]", "columns: [businessKey, status, total]")
	_, err := config.Load("feedsink.yaml", os.LookupEnv)
	if err == nil || strings.Count(err.Error(), "was created for other columns") != 2 {
		t.Errorf("with a column more: got %v, want the ETL refused at both mappings", err)
	}
}

func TestEtlCreateMakesAPatchsETLKnownToKeepWhatARowDoesNotName(t *testing.T) {
	d := newHost(t)
	d.change("      upsert: {mode: CREATE_OR_UPDATE}\n", "      patch: {etl: \"9\", mode: UPDATE_ONLY}\n")
	_, _, failed := d.run("check")
	if !strings.Contains(failed, "feedsink.yaml:12:7: mappings[0].imports.patch: a patch's row leaves empty") || !strings.Contains(failed, "`patch: {etl: \"9\", mode: UPDATE_ONLY, ignoresEmpty: true}`") {
		t.Errorf("check: got %s, want line 12 and what to write", failed)
	}
	code, out, failed := d.run("etl create --mapping customers --op patch -o json")
	var made []struct {
		Line       string
		Definition struct {
			DataLoadings []struct {
				Destination struct {
					AttributesMapping []struct {
						Header            string
						IgnoreEmptyValues bool
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 || len(made) != 1 {
		t.Fatalf("got code %d, %s %s: %v", code, out, failed, err)
	}
	for _, c := range made[0].Definition.DataLoadings[0].Destination.AttributesMapping {
		if want := c.Header != "customerNumber"; c.IgnoreEmptyValues != want {
			t.Errorf("column %s ignores empty values: got %v, want %v", c.Header, c.IgnoreEmptyValues, want)
		}
	}
	d.change("patch: {etl: \"9\", mode: UPDATE_ONLY}", made[0].Line)
	if code, _, failed := d.run("check"); code != 0 {
		t.Errorf("with the printed line: got code %d, %s", code, failed)
	}
	d.change("\"}\n      delete", "\", ignoresEmpty: true}\n      delete")
	if _, out, _ = d.run("etl create --mapping customers --op patch"); !strings.Contains(out, "\", ignoresEmpty: true}") {
		t.Errorf("an ETL for a mapping that says ignoresEmpty: got %s, want a line that says so too", out)
	}
}
