package connector

import (
	"testing"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/router"
)

func TestOnlineCheckSaysWhatTheServiceCannotBeAsked(t *testing.T) {
	cfg := &config.Config{Mappings: []router.Mapping{{Name: "customers", Imports: router.Imports{
		Upsert: &router.Import{ETL: "101"}, Patch: &router.Import{ETL: "103", IgnoresEmpty: true}, Delete: &router.Import{ETL: "102"},
	}}}}
	got := trustedETLs(cfg)
	want := Check{
		What: "ETL 103 for patch of customers", OK: true,
		Detail: "not checked: that it ignores empty values is what ignoresEmpty says, and the service cannot be asked; where it does not, what a row leaves empty is erased",
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v alone", got, want)
	}
}
