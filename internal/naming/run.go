// SPDX-License-Identifier: Apache-2.0

package naming

import (
	"strconv"
	"strings"
)

const (
	// runNameLength leaves room for the suffix of a pod or of an input.
	runNameLength = 51
	runHashLength = 10
)

// Run returns the name of the Job of a run, which begins with the FunctionJob's. The same run has the same name whoever
// asks, so that no run is begun twice, and another FunctionJob of that name has others.
func Run(name, uid string, runID int64) string {
	cut := name[:min(len(name), runNameLength-runHashLength-1)]
	return strings.TrimRight(cut, "-.") + "-" + Hash(uid, strconv.FormatInt(runID, 10))[:runHashLength]
}

// RunInput returns the name of a Secret or ConfigMap that a run reads, told from its others by the parts.
func RunInput(run string, parts ...string) string {
	return run + "-" + Hash(parts...)[:runHashLength]
}
