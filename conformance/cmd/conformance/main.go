// Command conformance makes scheduling cases, answers them with the stock
// plugins of kube-scheduler, and checks answers that were given before.
package main

import (
	"errors"
	"fmt"
	"os"
)

const usage = `usage:
  conformance verify FILE...                 recompute every answer and compare
  conformance generate -seed S -count N      make and answer fresh cases
  conformance generate -sequences N          make sequences of pods
Run "conformance generate -h" for all options. A FILE is JSON lines; .gz by suffix.
`

var errDiffers = errors.New("answers differ")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("no command given")
	}
	switch args[0] {
	case "verify":
		return verify(args[1:])
	case "generate":
		return generateCases(args[1:])
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("unknown command %q", args[0])
}
