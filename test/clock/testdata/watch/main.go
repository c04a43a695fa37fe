// Command watch prints the time of day, and how long it was on the monotonic clock
// since it did before, whenever a line comes in.
package main

import (
	"bufio"
	"os"
	"time"
)

func main() {
	last := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		os.Stdout.WriteString(now.UTC().Format(time.RFC3339Nano) + " " + now.Sub(last).String() + "\n")
		last = now
	}
}
