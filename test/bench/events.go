package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// variants is how many different contents events have, beside their key. Bodies
// of one variant are of one length whatever the key, so that as many calls carry
// as many bytes, if they are a multiple of variants.
const variants = 1000

// content is one variant: what stands around the customer's number.
type content struct {
	mail string // the beginning of the address
	rest string // behind the attributes that carry the number, to the end of the body
}

// contents are the same in every process.
var contents = func() (all [variants]content) {
	rnd := rand.New(rand.NewPCG(1, 1))
	pick := func(of string) string {
		words := strings.Fields(of)
		return words[rnd.IntN(len(words))]
	}
	for i := range all {
		first, last := pick(firstNames), pick(lastNames)
		all[i] = content{
			mail: strings.ToLower(first + "." + last + "."),
			rest: fmt.Sprintf(`"firstName":%q,"lastName":%q,"languages":[%q,%q],"points":%d,"lastVisit":"2026-%02d-%02dT%02d:%02d:00Z"},`+
				`"subscriptions":{"newsletter":%v},"segments":{"vip":%v,"tier":%q}}`,
				first, last, pick("fr en de"), pick("nl it es"), rnd.IntN(100_000),
				1+rnd.IntN(12), 1+rnd.IntN(28), rnd.IntN(24), rnd.IntN(60),
				rnd.IntN(2) == 0, rnd.IntN(10) == 0, pick("gold silver basic")),
		}
	}
	return all
}()

const (
	firstNames = "Ada Berthe Carla Dimitri Elif Fatima Grace Hana Ivo Jorge Kenji Lucja Ming Nadia Oskar Priya"
	lastNames  = "Angstrom Bernard Celik Dvorak Evans Ferrari Garcia Hansen Ivanova Jansen Kowalski Lopez Moreau Nguyen"
)

// customer is the key of a customer.
func customer(number int) string { return fmt.Sprintf("C%09d", number) }

// appendBody appends the body of operation 1 for a customer.
func appendBody(dst []byte, key string, variant int) []byte {
	c := &contents[variant%variants]
	dst = append(append(dst, `{"attributes":{"customerNumber":"`...), key...)
	dst = append(append(append(append(dst, `","emailAddress":"`...), c.mail...), key...), `@example.com",`...)
	return append(dst, c.rest...)
}

// event is the canonical event that leads to this body.
func event(key string, variant int) []byte {
	dst := make([]byte, 0, 384)
	dst = append(append(append(dst, `{"op":"upsert","key":{"customerNumber":"`...), key...), `"},`...)
	brace := len(dst)
	dst = appendBody(dst, key, variant)
	return append(dst[:brace], dst[brace+1:]...)
}

// distinct makes events with a key each.
func distinct() func() (key, value []byte) {
	i := -1
	return func() (key, value []byte) {
		i++
		number := customer(i)
		return []byte(number), event(number, i)
	}
}

// recurring makes events of so many keys in random order.
func recurring(keys int, event func(key string, variant int) []byte) func() (key, value []byte) {
	rnd := rand.New(rand.NewPCG(2, 2))
	i := -1
	return func() (key, value []byte) {
		i++
		number := customer(rnd.IntN(keys))
		return []byte(number), event(number, i)
	}
}

// hot makes events of which nine of ten are of one key in a hundred. The number
// of the event is its points: of a key's events the one with most is the last.
func hot(keys int) func() (key, value []byte) {
	rnd := rand.New(rand.NewPCG(3, 3))
	i := -1
	return func() (key, value []byte) {
		i++
		number := rnd.IntN(keys / 100)
		if rnd.IntN(10) == 0 {
			number = keys/100 + rnd.IntN(keys-keys/100)
		}
		return numbered(number, i)
	}
}

// numbered is an event whose points are its number.
func numbered(key, number int) (k, v []byte) {
	name := customer(key)
	return []byte(name), fmt.Appendf(nil, `{"op":"upsert","key":{"customerNumber":%q},"attributes":{"customerNumber":%[1]q,"points":%d,"firstName":"Ada","lastName":"Lovelace"}}`, name, number)
}
