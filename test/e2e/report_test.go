//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// slowest is how many stories are listed at the end.
const slowest = 15

var _ = ReportAfterSuite("the slowest stories", func(report Report) {
	stories := slices.DeleteFunc(slices.Clone(report.SpecReports), func(s types.SpecReport) bool {
		return s.LeafNodeType != types.NodeTypeIt || s.RunTime == 0
	})
	fmt.Print(timeTable(stories, report.RunTime))
})

// timeTable lists the stories that took longest, to keep the whole short. Those that run alone count in full, the others
// share their time.
func timeTable(stories []types.SpecReport, whole time.Duration) string {
	var alone, together time.Duration
	for i := range stories {
		if stories[i].IsSerial {
			alone += stories[i].RunTime
		} else {
			together += stories[i].RunTime
		}
	}
	slices.SortFunc(stories, func(a, b types.SpecReport) int { return cmp.Compare(b.RunTime, a.RunTime) })
	out := &strings.Builder{}
	fmt.Fprintf(out, "\n%d stories took %s: %s alone, %s side by side. The slowest:\n",
		len(stories), seconds(whole), seconds(alone), seconds(together))
	for i := range stories[:min(slowest, len(stories))] {
		how := ""
		if stories[i].IsSerial {
			how = "alone"
		}
		fmt.Fprintf(out, "  %6s  %-5s  %s\n", seconds(stories[i].RunTime), how, stories[i].FullText())
	}
	return out.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
