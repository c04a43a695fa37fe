package calls

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// holder is an origin that keeps refusals from being final while its lane is to halt.
type holder struct {
	origin
	hold func() bool
}

func (h *holder) Hold(error) bool { return h.hold() }

var errRefused = fault{status: 400, permanent: true}

func TestHaltedMappingsWritesWaitInOrderAndOthersGoOn(t *testing.T) {
	service := &script{}
	run(t, config(), service, func(t *testing.T, s *stage) {
		s.Halt("customers")
		first, second := s.put(schemas.Delete, "a"), s.put(schemas.Upsert, "a", "1")
		other := &origin{}
		s.Submit(Item{Mapping: "orders", Write: write(schemas.Upsert, "b", "2"), Origin: other})
		pass(time.Hour)
		s.want("halted", first.String()+second.String(), "")
		s.want("another mapping's", other.String(), "applied")
		if got := s.Halted(); got != 2 {
			t.Errorf("halted writes: got %d, want 2", got)
		}
		s.Resume("customers")
		pass(time.Second)
		s.want("calls", service.calls("a"), "delete, upsert 1")
		s.want("resumed", first.String()+", "+second.String(), "applied, applied")
		s.wantPending(0)
	})
}

func TestHeldRefusalIsTriedAgainBeforeNewerWritesOfItsKey(t *testing.T) {
	halted := true
	service := &script{answer: func(sent) error {
		if halted {
			return errRefused
		}
		return nil
	}}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		o := &holder{hold: func() bool {
			s.Halt("customers")
			return true
		}}
		s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, "k", "old"), Origin: o})
		pass(time.Minute)
		newer := s.put(schemas.Upsert, "k", "new")
		pass(time.Hour)
		s.want("calls while it is halted", service.calls("k"), "upsert old")
		s.want("held", o.String()+newer.String(), "")
		halted = false
		s.Resume("customers")
		pass(time.Second)
		s.want("calls", service.calls("k"), "upsert old, upsert old, upsert new")
		s.want("resumed", o.String()+", "+newer.String(), "applied, applied")
	})
}

// TestRefusalHeldWhileTheMappingIsResumedIsTriedAgain: a person may be faster than
// the last answer.
func TestRefusalHeldWhileTheMappingIsResumedIsTriedAgain(t *testing.T) {
	holds := 1
	service := &script{answer: func(sent) error { return errRefused }}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		o := &holder{hold: func() bool { holds--; return holds >= 0 }}
		s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, "k", "1"), Origin: o})
		pass(time.Minute)
		s.want("calls", service.calls("k"), "upsert 1, upsert 1")
		s.want("the second refusal", o.String(), "rejected: 400")
	})
}

func TestDropForgetsWhatWaitsForItsMapping(t *testing.T) {
	service := &script{}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		s.Halt("customers")
		gone, behind, kept := s.from(1, "a", "1"), s.from(1, "a", "2"), s.from(2, "b", "1")
		pass(time.Second)
		s.drop(of(1))
		s.Resume("customers")
		pass(time.Second)
		s.want("dropped", gone.String()+behind.String(), "")
		s.want("of another partition", kept.String(), "applied")
		s.want("calls", service.calls("a"), "")
		if again := s.from(1, "a", "3"); true {
			pass(time.Second)
			s.want("the key's next write", again.String(), "applied")
		}
		s.wantPending(0)
	})
}
