package e2e_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestImportOfAKilledMemberIsAdoptedNotRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Hold() // the import takes as long as the test wants
	yaml := head + deadLetters + strings.Replace(mappings, "rows: 500, bytes: 1MiB, age: 500ms", "rows: 2, bytes: 1MiB, age: 10s", 1)
	first := w.run(yaml)
	w.produce(customer("C1", "basic", 1), customer("C2", "basic", 2))
	w.until("the import is on record", func() bool { return strings.Contains(first.out.String(), "execution is on record") })
	if err := first.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.wait() // it was killed
	killed := time.Now()
	second := w.run(yaml)
	w.until("the next owner has found the import", func() bool {
		return strings.Contains(second.out.String(), "adopting the import of a former owner")
	})
	var list []struct{ Import *struct{ Since time.Time } }
	w.until("it is awaited", func() bool {
		err := json.Unmarshal([]byte(get(t, second.admin(w), "/imports")), &list)
		return err == nil && len(list) == 1 && list[0].Import != nil
	})
	if since := list[0].Import.Since; !since.Before(killed) {
		t.Errorf("the import goes on since %v, want a time before the first member was killed at %v", since, killed)
	}
	w.service.Release()
	w.settled()
	if got := len(w.service.Executions()); got != 1 {
		t.Errorf("imports: got %d, want the one", got)
	}
	for _, key := range []string{"C1", "C2"} {
		if _, ok := w.service.Row("customers", key); !ok {
			t.Errorf("%s: is missing", key)
		}
	}
	second.terminate(t)
}
