package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/klog/v2"
)

func TestEveryShapeIsDecided(t *testing.T) {
	for _, name := range shapeNames() {
		path := filepath.Join(t.TempDir(), name+".jsonl.gz")
		if err := writeCluster(name, 60, 30, path); err != nil {
			t.Fatal(err)
		}
		records, err := readLines(path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
		b, err := newBench(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		var result figures
		if err := b.load(records, &result); err != nil {
			t.Fatal(err)
		}
		if err := b.decideAll(records["pending"], 20, 5, &result); err != nil {
			t.Fatal(err)
		}
		cancel()
		placed, preempted := 20, 0
		if name == "preemption" {
			placed, preempted = 0, 20
		}
		if result.Placed != placed || result.Preempted != preempted {
			t.Errorf("%s: want %d placed and %d preempted, got %d and %d", name, placed, preempted, result.Placed, result.Preempted)
		}
	}
}

func TestSameArgumentsGiveSameCluster(t *testing.T) {
	var files [2][]byte
	for i := range files {
		path := filepath.Join(t.TempDir(), "cluster.jsonl")
		if err := writeCluster("topology-spread", 20, 10, path); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = data
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("want the same file twice, got two different ones")
	}
}

func TestUnknownShapeAndModeAreErrors(t *testing.T) {
	if err := writeCluster("nonsense", 1, 1, filepath.Join(t.TempDir(), "x")); err == nil {
		t.Error("want an error for an unknown shape, got none")
	}
	if err := measure("x", "nonsense", 1, 0, false); err == nil {
		t.Error("want an error for an unknown mode, got none")
	}
}
