package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"

	"plimsoll.dev/conformance/generate"
	"plimsoll.dev/conformance/oracle"
)

func generateCases(args []string) error {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "seed of the first case; the others follow it")
	count := flags.Int("count", 0, "how many cases to write")
	family := flags.String("family", "", "make cases of this family only")
	sequences := flags.Int("sequences", 0, "how many sequences to write, instead of cases")
	length := flags.Int("length", 50, "decisions a sequence")
	verbose := flags.Bool("v", false, "say why a case was left out")
	path := flags.String("o", "", "file to write; .gz by suffix; default stdout")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *count <= 0 && *sequences <= 0 {
		return errors.New("generate: ask for at least one case with -count, or sequence with -sequences")
	}
	names := generate.Families()
	if *family != "" {
		names = []string{*family}
	}
	out, err := oracle.NewWriter(*path)
	if err != nil {
		return err
	}
	makeCase := func(position int) (*oracle.Case, error) {
		c, err := generate.Case(names[position%len(names)], *seed+uint64(position))
		if err != nil {
			return nil, err
		}
		return c, oracle.Answer(c)
	}
	if *sequences > 0 {
		*count = *sequences
		makeCase = func(position int) (*oracle.Case, error) {
			return generate.Sequence(*seed+uint64(position), *length)
		}
	}
	if _, err := generate.Case(names[0], *seed); err != nil {
		return err
	}
	dropped, err := writeCases(out, *count, *verbose, makeCase)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "wrote %d cases; left out %d that kube-scheduler answers by chance and %d that it ends with an error\n", *count, dropped.unstable, dropped.failed)
	return nil
}

type drops struct{ unstable, failed int }

// writeCases makes cases in batches, one worker a core, and writes them in the
// order of their positions.
func writeCases(out *oracle.Writer, count int, verbose bool, makeCase func(position int) (*oracle.Case, error)) (drops, error) {
	var dropped drops
	batch := 4 * runtime.NumCPU()
	for written, index := 0, 0; written < count; index += batch {
		cases, errs := make([]*oracle.Case, batch), make([]error, batch)
		var group sync.WaitGroup
		slots := make(chan struct{}, runtime.NumCPU())
		for i := range batch {
			group.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				cases[i], errs[i] = makeCase(index + i)
			})
		}
		group.Wait()
		for i, c := range cases {
			switch {
			case errors.Is(errs[i], oracle.ErrUnstable):
				dropped.unstable++
			case errs[i] != nil:
				dropped.failed++
				if verbose {
					fmt.Fprintln(os.Stderr, errs[i])
				}
			case written < count:
				if err := out.Write(c); err != nil {
					return dropped, err
				}
				written++
			}
		}
	}
	return dropped, nil
}
