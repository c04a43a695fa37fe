package router_test

import (
	"slices"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// crm is two mappings of one bundle, orders behind the customers that they link to
// but before them in the configuration.
func crm() []router.Mapping {
	c, o := customers(), orders()
	c.Bundle, o.Bundle = "crm", "crm"
	c.Routes, o.Routes = []router.Route{{Lane: "batch"}}, []router.Route{{Lane: "batch"}}
	o.After = []string{"customers"}
	o.Imports = c.Imports
	o.Imports.Delete = nil
	o.Imports.Upsert = &router.Import{ETL: "101", Mode: "CREATE_OR_UPDATE"}
	o.Imports.Columns = []router.Column{{Name: "businessKey"}, {Name: "status"}}
	return []router.Mapping{o, c}
}

func names(bundle []*router.Compiled) (names []string) {
	for _, m := range bundle {
		names = append(names, m.Name)
	}
	return names
}

func TestBundleIsOrderedParentsFirstThenAsConfigured(t *testing.T) {
	shops, visits := crm()[0], crm()[0]
	shops.Name, shops.CustomTable, shops.After = "shops", "shops", nil
	visits.Name, visits.CustomTable, visits.After = "visits", "visits", []string{"orders", "shops"}
	ms := compile(t, append([]router.Mapping{visits}, append(crm(), shops)...)...).Mappings()
	for _, m := range ms {
		if got, want := names(m.Bundle()), []string{"customers", "orders", "shops", "visits"}; !slices.Equal(got, want) {
			t.Errorf("bundle of %s: got %q, want %q", m.Name, got, want)
		}
	}
	if got := compile(t, customers()).Mappings()[0].Bundle(); got != nil {
		t.Errorf("bundle of a mapping in none: got %q, want none", names(got))
	}
}

func TestEntriesAreNamedAfterTheirMapping(t *testing.T) {
	ms := crm()
	ms[0].Imports.FileName = "shop-$YYYYMMDD.csv"
	all := compile(t, ms...).Mappings()
	if got := all[0].EntryName() + " " + all[1].EntryName(); got != "shop-$YYYYMMDD.csv customers.csv" {
		t.Errorf("got %s, want the name given, and that of the mapping", got)
	}
}

func TestFingerprintsOfABundleAreThoseOfAllItsMappings(t *testing.T) {
	before := compile(t, crm()...).Mappings()
	alone := compile(t, customers()).Mappings()[0]
	if before[0].FileFingerprint() != before[1].FileFingerprint() || before[1].FileFingerprint() == before[1].Fingerprint {
		t.Error("got another fingerprint of the files for each mapping, want one of both together")
	}
	if alone.FileFingerprint() != alone.Fingerprint {
		t.Error("mapping in no bundle: got a fingerprint of its own for its files, want the mapping's")
	}
	mark := before[0].ETLFingerprint(schemas.Upsert)
	if mark == alone.ETLFingerprint(schemas.Upsert) || mark != before[1].ETLFingerprint(schemas.Upsert) {
		t.Error("got another fingerprint of the ETL for each mapping, want one of both together")
	}
	changed := crm()
	changed[1].Imports.Columns = changed[1].Imports.Columns[:2]
	after := compile(t, changed...).Mappings()
	if after[0].FileFingerprint() == before[0].FileFingerprint() || after[0].ETLFingerprint(schemas.Upsert) == mark {
		t.Error("after a change of the other mapping: got the same fingerprints, want others")
	}
}
