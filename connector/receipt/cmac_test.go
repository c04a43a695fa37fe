package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// The examples of RFC 4493, section 4.
func TestHashIsThatOfTheStandard(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	c := keyedCMAC(unhex("2b7e151628aed2a6abf7158809cf4f3c"))
	message := string(unhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"))
	for length, want := range map[int]string{
		0: "bb1d6929e95937287fa37d129b756746", 16: "070a16b46b4d4144f79bdd9dd04a287c",
		40: "dfa66747de9ae63030ca32611497c827", 64: "51f0bebf7e3b9d92fc49741779363cfe",
	} {
		if got := c.sum(message[:length]); hex.EncodeToString(got[:]) != want {
			t.Errorf("%d bytes: got %x, want %s", length, got, want)
		}
	}
}

// The README says how others can make a receipt's key.
func TestKeyOfAReceiptIsMadeAsDocumented(t *testing.T) {
	secret := sha256.Sum256([]byte("the secret"))
	table := keyedCMAC(secret[:16]).sum("\x01orders")
	want := keyedCMAC(table[:]).sum("a key that is longer than a block")
	keys, err := NewKeys(func() (string, error) { return "the secret", nil }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := keys.Hash(schemas.Table{Name: "orders", Custom: true}, "a key that is longer than a block"); got.Hash != want {
			t.Errorf("got %x, want %x", got.Hash, want)
		}
		keys.Hash(schemas.Table{Name: "orders"}, "another table")
	}
}
