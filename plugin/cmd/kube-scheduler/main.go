// Command kube-scheduler is the stock kube-scheduler with the plugin Plimsoll compiled in. Without a configuration that enables the plugin it
// decides as the stock one does.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"plimsoll.dev/plugin/score"
)

func main() {
	command := app.NewSchedulerCommand(app.WithPlugin(score.Name, score.New))
	os.Exit(cli.Run(command))
}
