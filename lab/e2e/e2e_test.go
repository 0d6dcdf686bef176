// Package e2e runs Kubernetes' own end-to-end specs for scheduling against a cluster, whoever schedules it.
//
//	go test -c -o e2e.test && ./e2e.test --kubeconfig FILE --ginkgo.focus 'SchedulerPredicates'
package e2e

import (
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	// The specs themselves.
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	// Their images are known by a table that has to be told where to look.
	_ "k8s.io/kubernetes/test/utils/image"
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestScheduling(t *testing.T) {
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	ginkgo.RunSpecs(t, "Kubernetes scheduling", suite, reporter)
}
