package connector

import (
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/router"
)

func TestOnlineCheckSaysWhatTheServiceCannotBeAsked(t *testing.T) {
	cfg := &config.Config{Mappings: []router.Mapping{{
		Name: "customers", Topics: []string{"t"}, ProfileTable: "customers", Key: "k", Routes: []router.Route{{Lane: "batch"}},
		Imports: router.Imports{
			Upsert: &router.Import{ETL: "101", Mode: "CREATE_OR_UPDATE"}, Patch: &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true},
			Delete:  &router.Import{ETL: "102", Mode: "DELETE"},
			Columns: []router.Column{{Name: "k"}, {Name: "a", Null: "immediate"}, {Name: "b"}},
			Roll:    router.Roll{Rows: 1}, SlotsPerDay: 12, Timezone: "UTC",
		},
	}}}
	check := func(etl, columns string) ops.Check {
		return ops.Check{What: etl, OK: true, Detail: "not checked, since the service cannot be asked: its definition must have ignoreEmptyValues: true for " +
			columns + "; without it, what a row leaves empty is erased"}
	}
	want := []ops.Check{check("ETL 101 for upsert of customers", "a"), check("ETL 103 for patch of customers", "a, b")}
	if got := ops.TrustedETLs(cfg); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	cfg.Mappings[0].Imports.Upsert.Fingerprint, cfg.Mappings[0].Imports.Patch.Fingerprint = "of etl create", "of etl create"
	if got := ops.TrustedETLs(cfg); len(got) != 0 {
		t.Errorf("of ETLs with a fingerprint: got %+v, want nothing", got)
	}
}
