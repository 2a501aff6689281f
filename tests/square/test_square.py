"""Every limit has its cases here: a tangent or a nesting, a square, and a control that is rejected; all by default."""

import pytest
import test_commute
import test_nesting
import test_tangent

from limitlab.macro.predict import LIMITS

# limit: (tangent or nesting, commuting, where a wrong clock, sign, rate or term is rejected)
CASES = {
    "OverlapODE": (
        "test_mean_step_at_small_d_is_exact_for_squares",
        "test_the_square_closes_for_erf",
        "test_mean_step_rejects_unit_norm_inputs test_the_square_does_not_close_with_a_wrong_rate",
    ),
    "OverlapSDE": (
        "test_one_step_of_sgd_has_this_covariance test_finite_size_drift_is_the_mean_of_a_step_at_small_d",
        "test_law_of_the_paths_is_that_of_sgd",
        "test_finite_size_drift_is_the_mean_of_a_step_at_small_d test_law_of_the_paths_is_that_of_sgd",
    ),
    "HighDimMeanField": (
        "test_drift_equals_overlap_ode_where_orthogonal_parts_are_orthogonal "
        "test_a_single_unit_follows_overlap_ode_exactly",
        "test_a_single_unit_follows_the_high_dimensional_mean_field",
        "test_drift_with_random_xi_is_another_flow test_a_single_unit_follows_the_high_dimensional_mean_field",
    ),
    "DimensionFree": (
        "test_the_mean_step_over_all_inputs_is_gradient_descent test_mean_field_tends_to_dimension_free",
        "test_sgd_follows_the_flow_at_small_size",
        "test_the_mean_step_sees_a_wrong_clock_and_new_parameters test_sgd_follows_the_flow_at_small_size",
    ),
    "MeanField": (
        "test_the_mean_step_is_the_gradient_of_the_risk test_mean_field_tends_to_dimension_free "
        "test_clouds_follow_the_radial_flow",
        "test_sgd_follows_the_clouds_of_the_mean_field",
        "test_the_mean_step_is_the_gradient_of_the_risk test_sgd_follows_the_clouds_of_the_mean_field",
    ),
    "RadialFlow": (
        "test_clouds_follow_the_radial_flow test_large_d_tends_to_infinite_d",
        "test_sgd_follows_the_radial_flow",
        "test_clouds_follow_the_radial_flow test_sgd_follows_the_radial_flow",
    ),
    "StateEvolution": (
        "test_mismatched_state_evolution_contains_the_matched_one",
        "test_trajectory_follows_state_evolution",
        "test_mismatched_state_evolution_contains_the_matched_one test_without_the_reaction_state_evolution_fails",
    ),
    "BayesOptimal": (
        "test_message_passing_ends_at_the_bayes_optimum_where_nothing_is_hard test_starts_choose_the_branch",
        "test_message_passing_ends_at_the_bayes_optimum",
        "test_starts_choose_the_branch test_message_passing_ends_at_the_bayes_optimum",
    ),
    "ERMAsymptotics": (
        "test_the_general_solver_finds_ridge_regression "
        "test_ridge_regression_at_the_penalty_of_the_prior_is_bayes_optimal",
        "test_fits_at_finite_size_agree_with_the_limit",
        "test_ridge_regression_at_the_penalty_of_the_prior_is_bayes_optimal test_the_comparison_sees_a_wrong_penalty",
    ),
    "DMFT": (
        "test_the_mean_first_step_of_descent_is_that_of_dmft test_rules_contain_each_other",
        "test_simulations_agree",
        "test_the_mean_first_step_of_descent_is_that_of_dmft test_the_square_sees_what_is_left_out",
    ),
    "MatrixFlow": (
        "test_one_short_step_of_wide_descent_is_the_velocity_of_the_matrix "
        "test_the_flow_is_the_limit_of_small_steps_at_first_order",
        "test_an_explicit_network_of_width_2d_is_the_matrix_map",
        "test_one_short_step_of_wide_descent_is_the_velocity_of_the_matrix test_a_wrong_clock_is_noticed",
    ),
}


def test_every_limit_is_in_the_table():
    assert set(CASES) == set(LIMITS)


@pytest.mark.parametrize("limit", CASES)
def test_its_cases_are_there_and_run_by_default(limit):
    tangents, squares, controls = (set(names.split()) for names in CASES[limit])
    linear = vars(test_tangent) | vars(test_nesting)
    for names, room in ((tangents, linear), (squares, vars(test_commute)), (controls, linear | vars(test_commute))):
        assert names <= set(room), names - set(room)
        assert not [n for n in names if any(mark.name == "slow" for mark in getattr(room[n], "pytestmark", ()))]
