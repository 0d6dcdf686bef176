// Command stock-bench measures the scheduling algorithm of stock kube-scheduler
// alone: its cache, snapshot, plugins and preemption on one core, with no API
// server behind them. It also writes the clusters that such measurements use.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
)

const usage = `usage:
  stock-bench cluster -shape S -nodes N -pods P -o FILE.jsonl.gz
  stock-bench run -cluster FILE -mode sampled|all -decisions K [-warmup W]
Shapes: `

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stock-bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "cluster":
		flags := flag.NewFlagSet(command, flag.ContinueOnError)
		shape := flags.String("shape", "plain", "one of "+strings.Join(shapeNames(), ", "))
		nodes := flags.Int("nodes", 100, "nodes of the cluster")
		pods := flags.Int("pods", 1000, "pending pods")
		path := flags.String("o", "", "file to write; .gz by suffix; default stdout")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return writeCluster(*shape, *nodes, *pods, *path)
	case "run":
		flags := flag.NewFlagSet(command, flag.ContinueOnError)
		path := flags.String("cluster", "", "file written by stock-bench cluster")
		mode := flags.String("mode", "sampled", "sampled: the default share of nodes; all: every node")
		decisions := flags.Int("decisions", 1000, "decisions to measure")
		warmup := flags.Int("warmup", 50, "decisions before the measurement")
		stepped := flags.Bool("stepped", false, "measure once for each line of standard input")
		profile := flags.String("cpuprofile", "", "write a profile of the run to this file")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *profile != "" {
			file, err := os.Create(*profile)
			if err != nil {
				return err
			}
			defer file.Close()
			if err := pprof.StartCPUProfile(file); err != nil {
				return err
			}
			defer pprof.StopCPUProfile()
		}
		return measure(*path, *mode, *decisions, *warmup, *stepped)
	}
	fmt.Fprintln(os.Stderr, usage+strings.Join(shapeNames(), ", "))
	if command == "" {
		return errors.New("no command given")
	}
	return fmt.Errorf("unknown command %q", command)
}
