//go:build page

package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

const (
	everyDetail = "document.querySelectorAll('details').forEach(d => d.open = true)"
	focused     = "document.activeElement.id || document.activeElement.tagName"
)

func TestPageOfASinkWithoutEventsIsReadable(t *testing.T) {
	w := newWorld(t, nil)
	b := open(t, w.page)
	b.awaits("the sink runs", "document.getElementById('state').textContent === 'running'")
	b.shows("2 mappings")
	eval[chromedp.Void](b, everyDetail)
	b.shows("None since this process began.")
	b.shows("This process has seen no import end today.")
	if eval[bool](b, "!document.getElementById('attention').hidden") {
		t.Error("something needs attention, want nothing")
	}
	b.judged("no-data")
}

func TestPageFollowsARunningSink(t *testing.T) {
	w := newWorld(t, nil)
	b := open(t, w.page)
	b.shows("2 mappings")
	eval[chromedp.Void](b, everyDetail)
	w.events(t, 3000)
	b.shows("FINISHED") // without being loaded again
	b.shows("10,000 left")
	b.awaits("the lag is gone", "[...document.querySelectorAll('.lines-cell')].every(c => !c.innerText.includes('–'))")
	b.shows("shop.orders[") // coordinates of a dead letter
	text := eval[string](b, "document.body.textContent")
	for _, personal := range []string{"@example.com", "customer.", "4c1f"} {
		if strings.Contains(text, personal) {
			t.Errorf("the page shows %q, want coordinates and nothing of what records say", personal)
		}
	}
	w.events(t, 500)
	b.judged("running")
	eval[chromedp.Void](b, "document.querySelectorAll('details').forEach(d => d.open = false)")
	b.judged("running-closed")
}

func TestPageNamesAHaltAndWhatEndsIt(t *testing.T) {
	w := newWorld(t, func(yaml string) string { return strings.Replace(yaml, "dlq: {topic: feedsink.dlq}", "", 1) })
	const attack = `column "tier" is unknown; <img src=x onerror=alert(1)>`
	w.Service.FailImports("customers", 100, attack)
	b := open(t, w.page)
	w.events(t, 2000)
	b.shows("feedsink imports release --mapping customers --server " + strings.TrimSuffix(w.page, "/"))
	b.shows("There is no other place for the record")
	if got := eval[string](b, "document.getElementById('state').textContent"); got != "2 halted" {
		t.Errorf("state: got %q, want 2 halted", got)
	}
	if eval[bool](b, "document.querySelector('img') !== null") {
		t.Error("the service's words have become markup")
	}
	if got := eval[string](b, "document.body.innerText"); !strings.Contains(got, "column … is unknown") || strings.Contains(got, "alert(1)") {
		t.Error("want the plain words of what the service says, and none of the others")
	}
	b.do(chromedp.Click(chromedp.CSS("#problems a")))
	b.awaits("the link opens its mapping", "document.querySelector('#mapping-customers details').open && document.activeElement.closest('li').id === 'mapping-customers'")
	b.judged("halted")
}

func TestPageSaysThatCallsPause(t *testing.T) {
	w := newWorld(t, nil)
	b := open(t, w.page)
	b.shows("2 mappings")
	w.Service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(503)}, sandbox.Fault{Match: sandbox.Match{Op: 1}, Answer: sandbox.Status(503)})
	w.events(t, 200)
	b.shows("Calls for table orders wait until")
	b.shows("calls for a table pause")
	w.Service.ClearFaults()
	b.awaits("it goes on", "document.getElementById('attention').hidden")
}

func TestPageSaysThatALaneWaitsForTheOther(t *testing.T) {
	w := newWorld(t, nil, schemas.Immediate) // no member has the batch lane
	b := open(t, w.page)
	b.shows("2 mappings")
	w.events(t, 200)
	b.shows("Records of crm.customers (partition")
	b.shows("wait in the immediate lane: group feedsink-dev-batch has committed nothing of this partition: start that lane with this configuration. Nothing is lost.")
	b.judged("routes")
}

// hundred are as many mappings, each with a topic that exists.
func hundred(yaml string) string {
	head, _, _ := strings.Cut(yaml, "mappings:")
	var b strings.Builder
	b.WriteString(head + "mappings:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  - name: table-%02d\n    topics: [%s]\n    profileTable: table%02d\n    key: customerNumber\n", i, []string{"crm.customers", "shop.orders"}[i%2], i)
		fmt.Fprintf(&b, "    routes: [{when: 'segments.tier == \"gold\"', lane: immediate}, {lane: batch}]\n")
		fmt.Fprintf(&b, "    imports: {upsert: {etl: \"%d\", mode: CREATE_OR_UPDATE}, columns: [customerNumber], slotsPerDay: %d}\n", 1000+i, 12-i%7)
	}
	return b.String()
}

func TestHundredMappingsCanBeSearched(t *testing.T) {
	w := newWorld(t, hundred)
	b := open(t, w.page)
	b.shows("100 mappings")
	b.awaits("the tables are this process's", "document.body.innerText.includes('12 of 12 left')")
	w.events(t, 300)
	b.judged("hundred")
	b.do(chromedp.KeyEvent("/"))
	if got := eval[string](b, focused); got != "filter" {
		t.Fatalf("after /: the focus is at %s, want the filter", got)
	}
	eval[chromedp.Void](b, "document.activeElement.value = ''") // a browser's own keyboard would not have typed it
	b.do(chromedp.KeyEvent("TABLE-7"))
	b.shows("10 of 100 mappings")
	if got := eval[int](b, "[...document.querySelectorAll('#list > li')].filter(l => !l.hidden).length"); got != 10 {
		t.Errorf("mappings shown: got %d, want 10", got)
	}
	b.do(chromedp.KeyEvent("x"))
	b.shows("No mapping is called so.")
}

// bundled has orders go into files too, in one ZIP with the customers'.
func bundled(yaml string) string {
	yaml = strings.Replace(yaml, "    profileTable: customers\n", "    profileTable: customers\n    bundle: crm\n", 1)
	yaml = strings.Replace(yaml, "age: 4s", "age: 1h", 1)
	return strings.Replace(yaml, "    routes: [{lane: immediate}]\n", `    bundle: crm
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [businessKey, status]
      roll: {rows: 2000, bytes: 16MiB, age: 1h}
  - name: visits
    topics: [shop.orders]
    customTable: visits
    key: businessKey
    routes: [{lane: immediate}]
`, 1)
}

func TestPageShowsWhatGoesAsOneBundle(t *testing.T) {
	w := newWorld(t, bundled)
	b := open(t, w.page)
	b.shows("3 mappings")
	b.shows("Bundle crm – one import for 2 mappings: their files go as one ZIP")
	if got := eval[string](b, "[...document.querySelectorAll('ul[aria-label=\"Bundle crm\"] b')].map(n => n.textContent).join()"); got != "customers,orders" {
		t.Errorf("the bundle: got %q, want customers,orders", got)
	}
	if eval[bool](b, "document.querySelector('#mapping-visits').closest('.bundle') !== null") {
		t.Error("visits are shown in a bundle, want them beside it")
	}
	w.events(t, 300)
	b.awaits("the open file fills", "document.querySelector('#mapping-orders').innerText.includes('old')")
	eval[chromedp.Void](b, "document.querySelector('#mapping-orders details').open = true")
	b.shows("the bundle's are complete, added up, at the first of")
	b.judged("bundle")
	filter := func(words string) {
		eval[chromedp.Void](b, fmt.Sprintf("document.getElementById('filter').value = %q; document.getElementById('filter').dispatchEvent(new Event('input'))", words))
	}
	filter("visits")
	b.awaits("its heading goes with the bundle", "document.querySelector('.bundle').hidden")
	filter("crm")
	b.shows("2 of 3 mappings")
}

func TestPageWorksByKeyboard(t *testing.T) {
	w := newWorld(t, nil)
	b := open(t, w.page)
	b.shows("2 mappings")
	var order []string
	for range 5 {
		b.do(chromedp.KeyEvent(kb.Tab))
		order = append(order, eval[string](b, focused))
	}
	if want := []string{"A", "filter", "only", "SUMMARY", "SUMMARY"}; !slices.Equal(order, want) {
		t.Errorf("tab order: got %q, want %q", order, want)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.awaits("Enter opens a mapping", "document.activeElement.parentElement.open")
	// An update must not take the focus away.
	before := eval[string](b, "document.getElementById('about').textContent")
	b.awaits("the page is updated", fmt.Sprintf("document.getElementById('about').textContent !== %q", before))
	if got := eval[string](b, focused); got != "SUMMARY" {
		t.Errorf("after an update: the focus is at %s, want it where it was", got)
	}
	if outline := eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
		t.Errorf("the focus is shown by outline %q, want solid", outline)
	}
}

func TestPageIsDarkForWhomItShallBe(t *testing.T) {
	w := newWorld(t, nil)
	b := open(t, w.page)
	back := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		b.do(b.colours(scheme))
		back[scheme] = eval[string](b, "getComputedStyle(document.body).backgroundColor")
	}
	if back["light"] != "rgb(246, 247, 249)" || back["dark"] != "rgb(20, 23, 28)" {
		t.Errorf("got %v, want a light and a dark background", back)
	}
}

func TestPageSaysThatTheConnectionIsLost(t *testing.T) {
	w := newWorld(t, nil)
	b := open(t, w.page)
	b.shows("2 mappings")
	w.stop()
	b.shows("No connection to feedsink since")
	if got := eval[string](b, "document.getElementById('state').textContent"); got != "connection lost" {
		t.Errorf("state: got %q, want connection lost", got)
	}
	b.shows("What you see is as of")
	b.judged("lost")
}
