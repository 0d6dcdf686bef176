package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var columns = []string{"name", "arrival_s", "lifetime_s", "cpu_milli", "memory_bytes"}

// arrival is one row: a pod, when it comes and how long it runs once placed.
type arrival struct {
	name         string
	at, lifetime float64
	cpuMilli     int64
	memoryBytes  int64
}

// readArrivals reads up to limit rows, or all if it is 0.
func readArrivals(in io.Reader, limit int) ([]arrival, error) {
	reader := csv.NewReader(in)
	reader.FieldsPerRecord = len(columns)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("arrivals: header: %w", err)
	}
	if !slices.Equal(header, columns) {
		return nil, fmt.Errorf("arrivals: want the columns %s, got %s", strings.Join(columns, ","), strings.Join(header, ","))
	}
	var arrivals []arrival
	seen := map[string]bool{}
	for limit == 0 || len(arrivals) < limit {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("arrivals: %w", err)
		}
		line, _ := reader.FieldPos(0)
		pod, err := parse(row)
		if err != nil {
			return nil, fmt.Errorf("arrivals: line %d: %w", line, err)
		}
		if seen[pod.name] {
			return nil, fmt.Errorf("arrivals: line %d: a second pod named %q", line, pod.name)
		}
		if len(arrivals) > 0 && pod.at < arrivals[len(arrivals)-1].at {
			return nil, fmt.Errorf("arrivals: line %d: pod %q comes before the one above; sort the rows by arrival_s", line, pod.name)
		}
		seen[pod.name] = true
		arrivals = append(arrivals, pod)
	}
	return arrivals, nil
}

func parse(row []string) (arrival, error) {
	pod := arrival{name: strings.Clone(row[0]), lifetime: math.Inf(1)}
	if pod.name == "" {
		return pod, errors.New("name is empty")
	}
	var err error
	if pod.at, err = seconds("arrival_s", row[1]); err != nil {
		return pod, err
	}
	if row[2] != "" {
		if pod.lifetime, err = seconds("lifetime_s", row[2]); err != nil {
			return pod, err
		}
	}
	if pod.cpuMilli, err = amount("cpu_milli", row[3]); err != nil {
		return pod, err
	}
	pod.memoryBytes, err = amount("memory_bytes", row[4])
	return pod, err
}

func seconds(column, text string) (float64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || value < 0 || math.IsInf(value, 0) || math.IsNaN(value) {
		return 0, fmt.Errorf("%s %q: want seconds, at least 0", column, text)
	}
	return value, nil
}

func amount(column, text string) (int64, error) {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 {
		return 0, fmt.Errorf("%s %q: want a whole number, at least 0", column, text)
	}
	return value, nil
}

func (a arrival) pod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Namespace: metav1.NamespaceDefault, UID: types.UID(a.name)},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{
				v1.ResourceCPU:    *resource.NewMilliQuantity(a.cpuMilli, resource.DecimalSI),
				v1.ResourceMemory: *resource.NewQuantity(a.memoryBytes, resource.BinarySI),
			}}}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

// machine is the shape that all nodes have.
type machine struct {
	cpu, memory resource.Quantity
	pods        int64
}

func (m machine) node(index int) *v1.Node {
	name := fmt.Sprintf("node-%06d", index)
	room := v1.ResourceList{v1.ResourceCPU: m.cpu, v1.ResourceMemory: m.memory, v1.ResourcePods: *resource.NewQuantity(m.pods, resource.DecimalSI)}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{Capacity: room, Allocatable: room.DeepCopy(),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
}
